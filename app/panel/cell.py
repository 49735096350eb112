"""One character on the screen and its ink; rows of them, and where two rows differ."""

import textwrap
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len

Ink = str
"""Name of a component class, without `ink--`: theme.tcss gives it a colour."""
NONE: Ink = "none"
LABEL: Ink = "label"
FAINT: Ink = "faint"
TITLE: Ink = "title"

JOIN_CELLS = 6
"""So many unchanged cells between two changes cost no more to send again than a jump of the cursor."""


class Cell(NamedTuple):
    """`under` is the ink of a lower half block that differs from the upper one; `chosen` = marked."""

    text: str
    ink: Ink = NONE
    under: Ink = NONE
    chosen: bool = False


Row = list[Cell]
EMPTY = Cell(" ")


def text(words: str, ink: Ink = NONE) -> Row:
    """A cell for each character; one that does not take exactly one cell is replaced."""
    return [_cell(character, ink) for character in words]


@lru_cache(maxsize=4096)
def _cell(character: str, ink: Ink) -> Cell:
    """The same object for the same cell: rows of such cells are compared at the speed of pointers."""
    return Cell(character if is_narrow(character) else "?", ink)


def is_narrow(character: str) -> bool:
    """Whether a terminal gives it one cell."""
    return character.isascii() or cell_len(character) == 1


def blank(count: int) -> Row:
    return [EMPTY] * max(count, 0)


def spread(left: Row, right: Row, width: int) -> Row:
    """`left` and `right` at the two ends of `width` cells; `left` is cut where both do not fit."""
    room = width - len(right)
    if room <= 0:
        return right[:width]
    return [*left[:room], *blank(room - len(left)), *right]


def changes(old: Row, new: Row) -> list[tuple[int, int]]:
    """Runs (start, end) of cells that differ."""
    runs: list[tuple[int, int]] = []
    for x in range(max(len(old), len(new))):
        if x < len(old) and x < len(new) and old[x] == new[x]:
            continue
        if runs and x - runs[-1][1] <= JOIN_CELLS:
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return runs


def choose(row: Row, start: int, width: int) -> Row:
    """The row with cells `start` to `start + width` marked."""
    return [cell._replace(chosen=True) if start <= x < start + width else cell for x, cell in enumerate(row)]


def wrap(words: str, width: int, ink: Ink = NONE, indent: int = 0) -> list[Row]:
    """Text in rows of `width`; all but the first are indented."""
    lines = textwrap.wrap(words, max(width, 1), subsequent_indent=" " * min(indent, max(width - 1, 0)))
    return [text(line, ink) for line in lines]


def fill(ink: Ink, character: str, count: int) -> Row:
    """The same cell `count` times."""
    return [_cell(character, ink)] * max(count, 0)
