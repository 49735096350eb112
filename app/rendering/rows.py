"""Rows: what stands in one line of the screen, and how rows of one line of text belong together.

Spans name their styles as component classes of the transcript (".answer--strong"): the same rows serve in
every theme.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from textual.content import Content
from textual.geometry import Offset

NARROWEST = 8
"""Text keeps at least so many cells; what would indent it further is left away."""


class Row(NamedTuple):
    """One line of the screen. A row that goes on with the text of the one above it (it was wrapped) has a
    `joint`, what stood between the two, and begins with `hang` characters that are not part of the text.
    """

    content: Content
    hang: int = 0
    joint: str | None = None


BLANK = Row(Content())


class Look(NamedTuple):
    """What the colours of code depend on."""

    ansi: bool = False
    dark: bool = True


class Block(Protocol):
    def rows(self, width: int, look: Look) -> list[Row]:
        """At most `width` cells wide, at least one."""


def wrapped(text: Content, width: int) -> list[Row]:
    """`text`, without tabs, in rows of at most `width` cells (2, where there are fewer: a wide character's),
    broken at spaces where that is possible.
    """
    rows = []
    for line in text.split("\n", allow_blank=True):
        end = 0
        for number, piece in enumerate(line.wrap(max(width, 2))):
            start = line.plain.index(piece.plain, end)  # spaces at a break are left away
            joint = (" " if start > end else "") if number else None
            rows.append(Row(piece, 0, joint))
            end = start + len(piece)
    return rows


def folded(line: Content, width: int, mark: str) -> list[Row]:
    """A line of code, without tabs, in rows of at most `width` cells, cut anywhere; rows that go on begin
    with `mark`.
    """
    if line.cell_length <= width:
        return [Row(line)]
    pieces = line.fold(width - len(mark))
    return [Row(pieces[0]), *(Row(Content(mark) + piece, len(mark), "") for piece in pieces[1:])]


def beside(rows: Sequence[Row], first: Content, rest: Content) -> list[Row]:
    """The rows with `first` in front of the first one and `rest` in front of the others."""
    fronts = [first, *[rest] * (len(rows) - 1)]
    return [
        Row(front + row.content, row.hang + len(front), row.joint)
        for front, row in zip(fronts, rows, strict=True)
    ]


def text_between(rows: Sequence[Row], start: Offset | None, end: Offset | None) -> str:
    """The text from `start` to `end` (a character in a row each; None for all), wrapped lines made whole."""
    first, last = (start.y if start else 0), (end.y if end else len(rows) - 1)
    text = ""
    for y, row in enumerate(rows[first : last + 1], first):
        begin = start.x if start and y == first else 0
        stop = end.x if end and y == last else None
        goes_on = row.joint is not None and y > first
        glue = (row.joint or "") if goes_on else "\n" * (y > first)
        text += glue + row.content.plain[max(begin, row.hang if goes_on else 0) : stop].rstrip()
    return text


def letters_of(row: Row) -> int:
    """Letters and digits of its text: these are the same at every width, unlike spaces, marks and frames."""
    return sum(map(str.isalnum, row.content.plain[row.hang :]))
