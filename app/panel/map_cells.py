"""What stands in each cell of a map: a character and an ink, from widths and pins."""

from collections.abc import Sequence

from ebbtide.app.panel.cell import EMPTY, LABEL, NONE, Cell, Ink, Row, blank, text
from ebbtide.app.panel.grid import GAP_CELLS, LABEL_CELLS, Grid
from ebbtide.engine.messages import Residency

ABSENT: Ink = "absent"
PINNED: Ink = "pinned"
USES: Ink = "uses"

BARS = "·▁▂▃▄▄▅▆▇"
"""By width; nothing is taller than 7/8, so that rows stay apart."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille cell: four rows of two."""


def ink_of(width: int) -> Ink:
    """Colours come in five steps; bars, histogram and inspector tell widths exactly."""
    if width <= 0:
        return ABSENT
    return ("w2", "w2", "w3", "w4", "w6", "w6", "w8", "w8")[min(width, 8) - 1]


SHADES = "·░▒▓█"
"""By uses, in steps up to the most used expert of the layer."""


def uses_row(uses: Sequence[int], grid: Grid) -> Row:
    """How often each expert of one layer was used, on a grid of bars."""
    most = max(uses, default=0)
    row: Row = []
    for count in uses:
        step = -(-count * (len(SHADES) - 1) // most) if most else 0
        wide = max(grid.cell_width - 1, 1)
        row += [*[Cell(SHADES[step], USES if step else ABSENT)] * wide, *blank(grid.cell_width - wide)]
    return row


class Picture:
    """One residency event laid out on a grid; rows are made when asked for."""

    def __init__(self, residency: Residency, grid: Grid) -> None:
        self._residency, self._grid = residency, grid

    def row(self, y: int) -> Row:
        """All cells of one row, columns side by side."""
        grid = self._grid
        cells: Row = []
        for column in range(grid.columns):
            if column:
                cells += [EMPTY] * GAP_CELLS
            layers = grid.row_layers(column, y)
            if layers:
                cells += text(f"L{layers[0]:02}".ljust(LABEL_CELLS), LABEL)
                cells += self._experts(layers)
            else:
                cells += [EMPTY] * grid.column_width
        return cells

    def _experts(self, layers: range) -> Row:
        match self._grid.style:
            case "bars":
                return self._bars(layers[0])
            case "halves":
                return self._halves(layers)
            case _:
                return self._dots(layers)

    def _look(self, layer: int, expert: int) -> tuple[int, bool]:
        index = layer * self._residency.experts + expert
        return self._residency.widths[index], bool(self._residency.pinned[index])

    def _bars(self, layer: int) -> Row:
        row: Row = []
        for expert in range(self._grid.experts):
            width, pinned = self._look(layer, expert)
            bar = Cell(BARS[min(width, 8)], PINNED if pinned else ink_of(width))
            wide = self._grid.cell_width
            if wide == 1:
                row.append(bar)
            elif width:
                row += [*[bar] * (wide - 1), Cell("•", PINNED) if pinned else EMPTY]
            else:
                row += [bar, *[EMPTY] * (wide - 1)]
        return row

    def _halves(self, layers: range) -> Row:
        row: Row = []
        for expert in range(self._grid.experts):
            inks = []
            for layer in layers:
                width, pinned = self._look(layer, expert)
                inks.append(PINNED if pinned else ink_of(width))
            row += [_half(*inks), *[EMPTY] * (self._grid.cell_width - 1)]
        return row

    def _dots(self, layers: range) -> Row:
        row: Row = []
        step = self._grid.experts_per_cell
        for first in range(0, self._grid.experts, step):
            row.append(self._braille(layers, first, first + step))
        return row

    def _braille(self, layers: range, first: int, end: int) -> Cell:
        """A dot is lit when at least half of its experts are resident."""
        pattern, lowest, any_pinned = 0, 9, False
        merge = self._grid.merge
        for y, layer in enumerate(layers):
            for x in range(2):
                here = range(first + x * merge, min(first + (x + 1) * merge, end, self._grid.experts))
                looks = [self._look(layer, expert) for expert in here]
                widths = [width for width, _ in looks if width]
                any_pinned |= any(pinned for _, pinned in looks)
                if widths and 2 * len(widths) >= len(looks):
                    pattern |= _DOTS[y][x]
                    lowest = min(lowest, *widths)
        if not pattern:
            return Cell("\N{BRAILLE PATTERN BLANK}", NONE)
        return Cell(chr(0x2800 + pattern), PINNED if any_pinned else ink_of(lowest))


def _half(upper: Ink, lower: Ink = NONE) -> Cell:
    present = (upper not in (ABSENT, NONE), lower not in (ABSENT, NONE))
    match present:
        case (True, True):
            return Cell("█", upper) if upper == lower else Cell("▀", upper, lower)
        case (True, False):
            return Cell("▀", upper)
        case (False, True):
            return Cell("▄", lower)
        case _:
            return Cell("·", ABSENT)
