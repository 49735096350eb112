"""How a map of experts is laid out in cells: pure arithmetic, no drawing.

Three ways to draw, richest first; a layer is a row of experts in all of them:

    bars     one to four cells an expert, one row a layer: the height of the bar is the width
    halves   one cell an expert, two layers a row: upper and lower half block
    dots     a braille cell is 2 experts x 4 layers, a dot an expert (or a few, where there are very many)

Layers that do not fit below each other go on in a second column, as in a newspaper.
"""

from typing import Literal, NamedTuple

Style = Literal["bars", "halves", "dots"]
LABEL_CELLS = 4
GAP_CELLS = 2
WIDEST_CELLS = 8
"""Of an expert; wider ones show nothing more."""
LAYERS_PER_ROW: dict[Style, int] = {"bars": 1, "halves": 2, "dots": 4}


WANTED: tuple[tuple[Style, int], ...] = (
    ("bars", 4),
    ("bars", 3),
    ("bars", 2),
    ("bars", 1),
    ("halves", 2),
    ("halves", 1),
    ("dots", 1),
)


class Place(NamedTuple):
    """One expert."""

    layer: int
    expert: int


class Grid(NamedTuple):
    """A layout. `merge` = experts per dot; `columns` = newspaper columns of `rows` rows each."""

    style: Style
    layers: int
    experts: int
    cell_width: int
    merge: int
    columns: int
    rows: int

    @property
    def layers_per_row(self) -> int:
        return LAYERS_PER_ROW[self.style]

    @property
    def experts_per_cell(self) -> int:
        """Across."""
        return 2 * self.merge if self.style == "dots" else 1

    @property
    def cells(self) -> int:
        """Cells across that show the experts of a layer."""
        return -(-self.experts // self.experts_per_cell) * self.cell_width

    @property
    def column_width(self) -> int:
        return LABEL_CELLS + self.cells

    @property
    def width(self) -> int:
        return self.columns * self.column_width + (self.columns - 1) * GAP_CELLS

    def row_layers(self, column: int, row: int) -> range:
        """Layers drawn in one row of one column; empty below the last."""
        first = (column * self.rows + row) * self.layers_per_row
        return range(min(first, self.layers), min(first + self.layers_per_row, self.layers))

    def locate(self, place: Place) -> tuple[int, int]:
        """(x, y) of the leftmost cell that shows an expert."""
        row = place.layer // self.layers_per_row
        column, y = divmod(row, self.rows)
        x = column * (self.column_width + GAP_CELLS) + LABEL_CELLS
        return x + place.expert // self.experts_per_cell * self.cell_width, y


def _try(style: Style, layers: int, experts: int, cell_width: int, merge: int, height: int) -> Grid:
    rows = -(-layers // LAYERS_PER_ROW[style])
    columns = -(-rows // max(height, 1))
    return Grid(style, layers, experts, cell_width, merge, columns, -(-rows // columns))


def fit(layers: int, experts: int, width: int, height: int) -> Grid:
    """The richest layout that shows everything in `width` x `height` cells, or the smallest there is."""
    for style, cell_width in WANTED:
        grid = _try(style, layers, experts, cell_width, 1, height)
        if grid.width <= width:
            return grid
    merge = 2
    while merge < experts and _try("dots", layers, experts, 1, merge, height).width > width:
        merge += 1
    return _try("dots", layers, experts, 1, merge, height)


def zoom(whole: Grid, width: int) -> Grid:
    """Twice as large as `whole` at least, in one column of bars: the map shows the part around the chosen
    expert. Wider where a whole layer fits into `width` cells anyway.
    """
    least = 2 * whole.cell_width if whole.style == "bars" else 2
    cell_width = max(least, min(WIDEST_CELLS, (width - LABEL_CELLS - 1) // max(whole.experts, 1)))
    return _try("bars", whole.layers, whole.experts, cell_width, 1, max(whole.layers, 1))


def window(total: int, room: int, at: int, start: int) -> int:
    """The first of `room` visible rows (or cells) so that `at` is seen, moved as little as possible."""
    start = min(max(start, at - room + 1), at)
    return max(0, min(start, total - room))
