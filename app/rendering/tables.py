"""Tables: columns as wide as they need to be, narrower on a narrow screen; records where none would fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from ebbtide.app.rendering.rows import Cut, Look, Row, wrapped

BETWEEN = Content.styled(" │ ", ".answer--rule")
CROSSING = "─┼─"
NARROWEST_COLUMN = 3


@dataclass(frozen=True)
class Table:
    """`align`: "left", "center" or "right" for each column. Rows have a cell for each column."""

    head: list[Content]
    body: list[list[Content]]
    align: list[str]

    def rows(self, width: int, look: Look) -> list[Row]:
        """At most `width` cells wide, where that is possible at all."""
        widths = self._widths(width)
        if widths is None:
            return self._records(width)
        head = [cell.stylize_before(".answer--table-head") for cell in self.head]
        rule = CROSSING.join("─" * column for column in widths)
        lines = [self._lines(cells, widths) for cells in self.body]
        between = [Row(Content.styled(rule, ".answer--rule"), is_text=False)]
        # Where a cell takes two lines, only a rule tells where the next row begins.
        airy = any(len(each) > 1 for each in lines)
        rows = self._lines(head, widths) + between
        for number, each in enumerate(lines):
            rows += (between if airy and number else []) + each
        return rows

    def _widths(self, width: int) -> list[int] | None:
        """Of the columns; None where there is no room for them side by side."""
        lines = [self.head, *self.body]
        natural = [max(1, *(cells[at].cell_length for cells in lines)) for at in range(len(self.head))]
        room = width - len(BETWEEN) * (len(natural) - 1)
        if sum(natural) <= room:
            return natural
        if room < NARROWEST_COLUMN * len(natural):
            return None
        return _shrunk(natural, room)

    def _lines(self, row: Sequence[Content], widths: Sequence[int]) -> list[Row]:
        """One row of the table."""
        columns = [
            [line.content for line in wrapped(cell, width)] or [Content()]
            for cell, width in zip(row, widths, strict=True)
        ]
        lines = []
        for at in range(max(map(len, columns))):
            cells = [column[at] if at < len(column) else Content() for column in columns]
            lines.append(_side_by_side(cells, widths, self.align))
        return lines

    def _records(self, width: int) -> list[Row]:
        """Each row as lines of "column: cell"."""
        rows = []
        for number, cells in enumerate(self.body or [[Content()] * len(self.head)]):
            if number:
                rows.append(Row(Content.styled("─" * max(width, 1), ".answer--rule"), is_text=False))
            for name, cell in zip(self.head, cells, strict=True):
                rows += wrapped(name.stylize_before(".answer--table-head") + ": " + cell, max(width, 1))
        return rows


def _shrunk(natural: Sequence[int], room: int) -> list[int]:
    """The widest columns give way first: the largest limit at which all fit; what is left over goes to the
    first of those that were cut.
    """
    limit = max(natural)
    while sum(min(column, limit) for column in natural) > room:
        limit -= 1
    widths = [min(column, limit) for column in natural]
    for at, column in enumerate(natural):
        if column > limit and sum(widths) < room:
            widths[at] += 1
    return widths


def _side_by_side(cells: Sequence[Content], widths: Sequence[int], align: Sequence[str]) -> Row:
    """A copy has tabs between the cells."""
    parts, cuts, at, before = [], [], 0, 0
    for number, (cell, width, side) in enumerate(zip(cells, widths, align, strict=True)):
        space = max(0, width - cell.cell_length)
        left = {"left": 0, "center": space // 2, "right": space}[side]
        parts.append(cell.pad(left, space - left))
        at += len(BETWEEN) * (number > 0)
        cuts.append(Cut(before, at + left, "\t" * (number > 0)))
        before = at + left + len(cell)
        at += len(parts[-1])
    return Row(BETWEEN.join(parts), cuts=(*cuts, Cut(before, at)))
