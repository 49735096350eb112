"""What an empty chat looks like, row by row, without Textual: the same cells as on the chat screen."""

from collections.abc import Iterator
from typing import Literal

from ebbtide.app.greeting import GREETING, PLACEHOLDER

Ink = Literal["paper", "primary", "name", "success", "placeholder", "cursor"]
Row = list[tuple[str, Ink]]
"""Pieces of a row; together they fill its width."""

TINY_ROWS, LOW_ROWS = 8, 18
"""Below: neither border nor status; no memory bar."""


def first_rows(width: int, height: int, model: str, *, compact: bool = False) -> list[Row]:
    """`height` rows of `width` cells, for the state "starting" of the model `model`."""
    tiny = height < TINY_ROWS
    bottom = list(_prompt(width, bordered=not (tiny or compact), marked=compact and not tiny))
    if not tiny:
        bottom.append(_status(width, model))
    if height >= LOW_ROWS:
        bottom.append([(" " * width, "paper")])
    top = height - len(bottom)
    padding = (0, 0) if tiny else (1, 1 if compact else 2)
    return (_greeting(width, top, *padding) + bottom)[-height:]


def _greeting(width: int, height: int, above: int, beside: int) -> list[Row]:
    """In the middle of `height` rows; what does not fit is cut off at the end."""
    lines = [part for line in GREETING.split("\n") for part in _wrapped(line, width - 2 * beside)]
    room = max(height - above, 0)
    before = max(room - len(lines), 0) // 2
    rows = [""] * (above + before) + lines[:room]
    rows += [""] * (height - len(rows))
    return [_centred(line, width) for line in rows[: max(height, 0)]]


def _wrapped(line: str, width: int) -> list[str]:
    """Broken between words, the spaces at the break dropped."""
    rows = []
    while len(line) > width:
        at = line.rfind(" ", 0, width + 1)
        at = at if at > 0 else width
        rows.append(line[:at].rstrip())
        line = line[at:].lstrip()
    return [*rows, line]


def _centred(line: str, width: int) -> Row:
    before = (width - len(line)) // 2
    return [(" " * before, "paper"), (line, "primary"), (" " * (width - before - len(line)), "paper")]


def _prompt(width: int, *, bordered: bool, marked: bool) -> Iterator[Row]:
    """The empty prompt: `bordered` all around, `marked` on its left, or one plain line."""
    edge: Row = [(" ", "paper"), ("│", "primary"), (" ", "paper")] if bordered else [("  ", "paper")]
    end: Row = edge[::-1]
    if marked:
        edge = [(" ", "paper"), ("▌", "primary"), (" ", "paper")]
    room = width - sum(len(text) for text, _ in edge + end)
    lines = _wrapped(PLACEHOLDER, max(room, 1))
    rule = "─" * (width - 4)
    if bordered:
        yield [(" ", "paper"), (f"╭{rule}╮", "primary"), (" ", "paper")]
    for number, line in enumerate(lines if bordered else lines[:1]):
        cursor = line[: 1 - number]
        rest = line[len(cursor) :]
        words: Row = [(cursor, "cursor"), (rest, "placeholder")]
        yield [*edge, *words, (" " * (room - len(line)), "paper"), *end]
    if bordered:
        yield [(" ", "paper"), (f"╰{rule}╯", "primary"), (" ", "paper")]


def _status(width: int, model: str) -> Row:
    """A name with characters of unknown width, or too long a one, is left to the real screen."""
    mark = "◐ starting"
    if not model.isascii() or len(model) + len(mark) + 8 > width:
        model = ""
    used = 4 + len(model) + len(mark)
    return [
        ("  ", "paper"),
        (model, "name"),
        ("  ", "paper"),
        (mark, "success"),
        (" " * (width - used), "paper"),
    ]
