"""What stands in each cell of a map: a character and an ink, from widths and pins."""

from collections.abc import Sequence
from functools import cache

from ebbtide.app.panel.cell import EMPTY, LABEL, NONE, Cell, Ink, Row, blank, text
from ebbtide.app.panel.grid import GAP_CELLS, LABEL_CELLS, Grid
from ebbtide.engine.messages import Residency

ABSENT: Ink = "absent"
PINNED: Ink = "pinned"
USES: Ink = "uses"

BARS = "·▁▁▂▃▄▅▆▇"
"""By width; nothing is taller than 7/8, so that rows stay apart. 1 and 2, which are rare, look alike."""
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
    """One residency event laid out on a grid; rows are made when asked for.

    An expert's code is its width, or PINNED_CODE: one number to look up what is drawn for it.
    """

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
                made = self._experts([self._codes(layer) for layer in layers])
                marks = grid.style == "bars" and any(self._residency.bounds)
                cells += self._marked(layers[0], made) if marks else made
            else:
                cells += [EMPTY] * grid.column_width
        return cells

    def _codes(self, layer: int) -> bytes:
        """u8[experts] of one layer."""
        span = slice(layer * self._residency.experts, (layer + 1) * self._residency.experts)
        widths, pinned = self._residency.widths[span], self._residency.pinned[span]
        if self._grid.style != "bars" and any(bounds := self._residency.bounds[span]):
            # There is no room for a sign: their ink says that a person wants something of them.
            wishes = zip(widths, pinned, bounds, strict=True)
            pinned = bytes(pin or (width > 0 and least > 0) for width, pin, least in wishes)
        if not any(pinned):
            return widths
        return bytes(PINNED_CODE if pin else width for width, pin in zip(widths, pinned, strict=True))

    def _marked(self, layer: int, row: Row) -> Row:
        """The row of bars with a sign behind experts whose width is bounded, or in their ink."""
        count, wide = self._residency.experts, self._grid.cell_width
        for expert in range(count):
            at = layer * count + expert
            if not self._residency.bounds[at]:
                continue
            if wide > 1:
                row[(expert + 1) * wide - 1] = _HELD if self._residency.held[at] else _LEAST
            else:
                row[expert] = row[expert]._replace(ink=PINNED)
        return row

    def _experts(self, rows: list[bytes]) -> Row:
        grid = self._grid
        match grid.style:
            case "bars":
                return _bars(rows[0], grid.cell_width)
            case "halves":
                return _halves(rows[0], rows[1] if len(rows) > 1 else b"", grid.cell_width)
            case _ if grid.merge == 1:
                return _dots(rows)
            case _:
                return _merged_dots(rows, grid.merge)


PINNED_CODE = 9
_INKS = tuple(PINNED if code == PINNED_CODE else ink_of(code) for code in range(PINNED_CODE + 1))
_BARS = tuple(Cell(bar, ink) for bar, ink in zip(BARS + BARS[-1], _INKS, strict=True))
_PIN_MARK = Cell("•", PINNED)
_LEAST, _HELD = Cell("≥", PINNED), Cell("=", PINNED)
_GAPS = tuple(Cell(" ", ink) for ink in _INKS)
"""In the ink of their neighbours: a change of ink costs more bytes than the character."""


def _bars(codes: bytes, wide: int) -> Row:
    if wide == 1:
        return [_BARS[code] for code in codes]
    row: Row = []
    for code in codes:
        if code:
            row += [_BARS[code]] * (wide - 1)
            row.append(_PIN_MARK if code == PINNED_CODE else _GAPS[code])
        else:
            row += [_BARS[0], *[_GAPS[0]] * (wide - 1)]
    return row


def _halves(upper: bytes, lower: bytes, wide: int) -> Row:
    row: Row = []
    for above, below in zip(upper, lower or bytes(len(upper)), strict=True):
        row.append(_half(above, below))
        if wide > 1:
            row += [_GAPS[above or below]] * (wide - 1)
    return row


@cache
def _half(above: int, below: int) -> Cell:
    upper, lower = _INKS[above], _INKS[below]
    match bool(above), bool(below):
        case (True, True):
            return Cell("█", upper) if upper == lower else Cell("▀", upper, lower)
        case (True, False):
            return Cell("▀", upper)
        case (False, True):
            return Cell("▄", lower)
        case _:
            return Cell("·", ABSENT)


@cache
def _braille(pattern: int, ink: Ink) -> Cell:
    return Cell(chr(0x2800 + pattern), ink if pattern else NONE)


def _dots(rows: list[bytes]) -> Row:
    """Two experts of up to four layers in a cell, in the ink of the lowest width."""
    lit = list(zip(rows, _DOTS, strict=False))
    count = len(rows[0])
    row: Row = []
    for first in range(0, count, 2):
        pattern, lowest, pinned = 0, PINNED_CODE, False
        for codes, bits in lit:
            for code, bit in zip(codes[first : first + 2], bits, strict=False):
                if code:
                    pattern |= bit
                    pinned |= code == PINNED_CODE
                    lowest = min(lowest, code)
        row.append(_braille(pattern, PINNED if pinned else _INKS[lowest]))
    return row


def _merged_dots(rows: list[bytes], merge: int) -> Row:
    """The same where a dot stands for `merge` experts: it is lit when at least half of them are resident."""
    row: Row = []
    for first in range(0, len(rows[0]), 2 * merge):
        pattern, lowest, pinned = 0, PINNED_CODE, False
        for codes, bits in zip(rows, _DOTS, strict=False):
            for side, bit in enumerate(bits):
                here = codes[first + side * merge : first + (side + 1) * merge]
                resident = [code for code in here if code]
                pinned |= PINNED_CODE in here
                if resident and 2 * len(resident) >= len(here):
                    pattern |= bit
                    lowest = min(lowest, *resident)
        row.append(_braille(pattern, PINNED if pinned else _INKS[lowest]))
    return row
