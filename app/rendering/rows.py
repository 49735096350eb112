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


class Cut(NamedTuple):
    """Characters `start` to `end` of a row are drawn for the eye; `text` is what a copy has instead."""

    start: int
    end: int
    text: str = ""


class Row(NamedTuple):
    """One line of the screen. A row that goes on with the text of the one above it (it was wrapped) has a
    `joint`, what stood between the two, and begins with `hang` characters that are not part of the text.
    A row that is no text is an ornament: a copy has nothing of it. `cuts` are in order, and do not overlap.
    """

    content: Content
    hang: int = 0
    joint: str | None = None
    cuts: tuple[Cut, ...] = ()
    is_text: bool = True


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


def beside(rows: Sequence[Row], first: Content, rest: Content, *, is_ornament: bool = False) -> list[Row]:
    """The rows with `first` in front of the first one and `rest` in front of the others: an ornament, if that
    is said, and in front of another one.
    """
    fronts = [first, *[rest] * (len(rows) - 1)]
    return [_behind(front, row, is_ornament) for front, row in zip(fronts, rows, strict=True)]


def _behind(front: Content, row: Row, is_ornament: bool) -> Row:
    moved = len(front)
    cuts = [Cut(cut.start + moved, cut.end + moved, cut.text) for cut in row.cuts]
    if row.cuts and row.cuts[0].start == 0:
        cuts[0] = cuts[0]._replace(start=0)
    elif is_ornament:
        cuts.insert(0, Cut(0, moved))
    return Row(front + row.content, row.hang + moved, row.joint, tuple(cuts), row.is_text)


def text_between(rows: Sequence[Row], start: Offset | None, end: Offset | None) -> str:
    """The text from `start` to `end` (a character in a row each; None for all), wrapped lines made whole and
    ornaments left away.
    """
    first, last = (start.y if start else 0), (end.y if end else len(rows) - 1)
    text = ""
    is_first = True
    for y, row in enumerate(rows[first : last + 1], first):
        if not row.is_text:
            continue
        begin = start.x if start and y == first else 0
        stop = end.x if end and y == last else None
        goes_on = row.joint is not None and not is_first
        glue = (row.joint or "") if goes_on else "\n" * (not is_first)
        text += glue + _copied(row, max(begin, row.hang if row.joint is not None else 0), stop)
        is_first = False
    return text


def _copied(row: Row, begin: int, stop: int | None) -> str:
    """What a copy has of the characters `begin` to `stop` of a row."""
    plain = row.content.plain
    if not row.cuts:
        return plain[begin:stop].rstrip()
    stop = len(plain) if stop is None else stop
    text = ""
    for cut in row.cuts:
        text += plain[begin : min(cut.start, stop)]
        if begin <= cut.start < stop:
            text += cut.text
        begin = max(begin, cut.end)
    return text + plain[begin:stop]


def marked_parts(row: Row, begin: int, stop: int | None) -> list[tuple[int, int]]:
    """Which of the characters `begin` to `stop` are text: what is shown as selected."""
    if not row.is_text:
        return []
    stop = len(row.content) if stop is None else stop
    parts = []
    for cut in row.cuts:
        if not cut.text:
            parts.append((begin, min(cut.start, stop)))
            begin = max(begin, cut.end)
    parts.append((begin, stop))
    return [(start, end) for start, end in parts if start < end]


def letters_of(row: Row) -> int:
    """Letters and digits of its text: these are the same at every width, unlike spaces, marks and frames."""
    return sum(map(str.isalnum, row.content.plain[row.hang :]))
