"""What an empty chat looks like, row by row, without Textual: the same cells as on the chat screen."""

from typing import Literal

from ebbtide.app.greeting import GREETING, PLACEHOLDER

Ink = Literal["paper", "air", "gap", "primary", "name", "success", "placeholder", "cursor"]
"""`paper`, `air` (above and below the greeting) and `gap` (of the status line) hold spaces only."""
Row = list[tuple[str, Ink]]
"""Pieces of a row; together they fill its width."""

TINY_ROWS, LOW_ROWS = 8, 18
"""Below: neither border nor status; no memory bar."""
LEAST_COLUMNS, LEAST_ROWS = 12, 4
"""Smaller ones are not drawn."""


def first_rows(width: int, height: int, model: str, *, compact: bool = False) -> list[Row]:
    """`height` rows of `width` cells, for the state "starting" of the model `model`."""
    if height < TINY_ROWS:
        bottom = _plain_prompt(width)
        return (_greeting(width, height - len(bottom), 0, 0) + bottom)[-height:]
    bottom = [*(_marked_prompt(width) if compact else _bordered_prompt(width)), _status(width, model)]
    if height >= LOW_ROWS:
        bottom.append([(" " * width, "paper")])
    return _greeting(width, height - len(bottom), 1, 1 if compact else 2) + bottom


def _greeting(width: int, height: int, above: int, beside: int) -> list[Row]:
    """In the middle of `height` rows; what does not fit is cut off at the end."""
    lines = [part for line in GREETING.split("\n") for part in _wrapped(line, width - 2 * beside)]
    room = max(height - above, 0)
    before = max(room - len(lines), 0) // 2
    after = max(height - above - before - len(lines), 0)
    margin: Row = [(" " * beside, "paper")]
    air: Row = [*margin, (" " * (width - 2 * beside), "air"), *margin]
    rows: list[Row] = [[(" " * width, "paper")] for _ in range(above)]
    rows += [air] * before + [_centred(line, width) for line in lines[:room]] + [air] * after
    return rows[: max(height, 0)]


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


def _plain_prompt(width: int) -> list[Row]:
    edge: Row = [(" ", "paper")]
    return [[*edge, *words, *edge] for words in _placeholder(width - 2)[:1]]


def _marked_prompt(width: int) -> list[Row]:
    edge: Row = [(" ", "paper"), ("▌", "primary"), (" ", "paper")]
    return [[*edge, *words, ("  ", "paper")] for words in _placeholder(width - 5)]


def _bordered_prompt(width: int) -> list[Row]:
    rule = "─" * (width - 4)
    edge: Row = [(" ", "paper"), ("│", "primary"), (" ", "paper")]
    middle = [[*edge, *words, *edge[::-1]] for words in _placeholder(width - 6)]
    return [_edge_row(f"╭{rule}╮"), *middle, _edge_row(f"╰{rule}╯")]


def _edge_row(text: str) -> Row:
    return [(" ", "paper"), (text, "primary"), (" ", "paper")]


def _placeholder(width: int) -> list[Row]:
    """The cursor is on its first letter."""
    first, *rest = _wrapped(PLACEHOLDER, width)
    rows: list[Row] = [[(first[:1], "cursor"), (first[1:], "placeholder")]]
    rows += [[(line, "placeholder")] for line in rest]
    return [[*row, (" " * (width - sum(len(text) for text, _ in row)), "paper")] for row in rows]


def _status(width: int, model: str) -> Row:
    """A name with characters of unknown width, or too long a one, is left to the real screen."""
    mark = "◐ starting"
    if not model.isascii() or len(model) + len(mark) + 8 > width:
        model = ""
    rest = width - 6 - len(model) - len(mark)
    return [
        ("  ", "paper"),
        (model, "name"),
        ("  ", "gap"),
        (mark, "success"),
        (" " * rest, "gap"),
        ("  ", "paper"),
    ]
