"""The map: every expert of every layer, resident or not, and how wide."""

from textual.events import Click
from textual.message import Message

from ebbtide.app.panel.cell import LABEL, Row, choose, text, wrap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import GAP_CELLS, LABEL_CELLS, Grid, Place, fit, window, zoom
from ebbtide.app.panel.map_cells import Picture
from ebbtide.app.panel.tiles import Tiles
from ebbtide.engine.messages import Residency


class ExpertMap(Tiles):
    """`place` is the chosen expert, None where there is nothing to choose (the side panel)."""

    class Chosen(Message):
        """A click on an expert."""

        def __init__(self, place: Place) -> None:
            super().__init__()
            self.place = place

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed
        self.place: Place | None = None
        self.zoomed = False
        self._corner = (0, 0)
        self._made: tuple[Grid, Residency, list[Row]] | None = None

    @property
    def grid(self) -> Grid | None:
        """The layout of the latest picture in the room that there is."""
        residency = self._feed.residency
        width, height = self.content_size
        if residency is None or residency.experts == 0 or not width or not height:
            return None
        if self.zoomed:
            return zoom(residency.layers, residency.experts)
        return fit(residency.layers, residency.experts, width, height)

    def rows(self, width: int, height: int) -> list[Row]:
        residency, grid = self._feed.residency, self.grid
        if residency is None:
            return [text("Waiting for the engine ...", LABEL)]
        if grid is None:
            return wrap("This model has no experts: all its weights stay in memory.", width, LABEL)
        whole = self._whole(residency, grid)
        if self.place is not None:
            x, y = grid.locate(self.place)
            whole = [choose(row, x, grid.cell_width) if y == at else row for at, row in enumerate(whole)]
        if grid.width > width or grid.rows > height:
            whole = self._part(whole, grid, width, height)
        return whole

    def _whole(self, residency: Residency, grid: Grid) -> list[Row]:
        """All rows; those whose experts are as before are the same objects as before."""
        old = self._made
        picture = Picture(residency, grid)
        if old is None or old[0] != grid:
            made = [picture.row(y) for y in range(grid.rows)]
        else:
            stale = self._stale(old[1], residency, grid)
            made = [picture.row(y) if y in stale else row for y, row in enumerate(old[2])]
        self._made = (grid, residency, made)
        return made

    @staticmethod
    def _stale(old: Residency, new: Residency, grid: Grid) -> set[int]:
        """Rows of which a layer has changed."""
        count, stale = new.experts, set()
        for layer in range(new.layers):
            span = slice(layer * count, (layer + 1) * count)
            if old.widths[span] != new.widths[span] or old.pinned[span] != new.pinned[span]:
                stale.add(layer // grid.layers_per_row % grid.rows)
        return stale

    def _part(self, whole: list[Row], grid: Grid, width: int, height: int) -> list[Row]:
        """The window around the chosen expert; labels stay at the left edge."""
        room = max((width - LABEL_CELLS) // grid.cell_width, 1)
        x, y = grid.locate(self.place) if self.place is not None else (LABEL_CELLS, 0)
        expert = (x - LABEL_CELLS) // grid.cell_width
        left = window(grid.cells // grid.cell_width, room, expert, self._corner[0])
        top = window(grid.rows, height, y, self._corner[1])
        self._corner = (left, top)
        begin = LABEL_CELLS + left * grid.cell_width
        return [
            [*row[:LABEL_CELLS], *row[begin : begin + room * grid.cell_width]]
            for row in whole[top : top + height]
        ]

    def on_click(self, event: Click) -> None:
        grid = self.grid
        if grid is None or self.place is None:
            return
        at = event.screen_offset - self.content_region.offset
        place = place_at(grid, at.x, at.y, self._corner if self.zoomed else (0, 0))
        if place is not None:
            self.post_message(self.Chosen(place))


def place_at(grid: Grid, x: int, y: int, corner: tuple[int, int]) -> Place | None:
    """The first expert of the cell at (x, y), if there is one."""
    column, inside = divmod(x, grid.column_width + GAP_CELLS)
    cell = (inside - LABEL_CELLS) // grid.cell_width + corner[0]
    layers = grid.row_layers(column, y + corner[1])
    expert = cell * grid.experts_per_cell
    if inside < LABEL_CELLS or not layers or not 0 <= expert < grid.experts or y + corner[1] >= grid.rows:
        return None
    return Place(layers[0], expert)
