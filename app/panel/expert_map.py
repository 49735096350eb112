"""The map: every expert of every layer, resident or not, and how wide."""

from typing import NamedTuple

from textual.events import Click
from textual.message import Message

from ebbtide.app.panel.cell import LABEL, Row, blank, choose, text, wrap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import GAP_CELLS, LABEL_CELLS, Grid, Place, fit, window, zoom
from ebbtide.app.panel.map_cells import Picture
from ebbtide.app.panel.tiles import Tiles
from ebbtide.engine.messages import Residency

COMES = "The engine is at work: the map comes with its next step."
UP, DOWN, LEFT, RIGHT = "↑↓<>"
"""Marks at an edge behind which there is more."""


class View(NamedTuple):
    """The part of a map that is in view: its first row and expert, and how many of each."""

    top: int
    left: int
    rows: int
    cells: int


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
        whole = fit(residency.layers, residency.experts, width, height)
        return zoom(whole, width) if self.zoomed else whole

    @property
    def shown(self) -> str:
        """Which part of an enlarged map is in view; empty where it is not enlarged."""
        grid = self.grid
        if grid is None or not self.zoomed:
            return ""
        view = self._view(grid, *self.content_size)
        layers = f"L{view.top:02}\N{EN DASH}L{min(view.top + view.rows, grid.layers) - 1:02} of {grid.layers}"
        if view.cells >= grid.experts:
            return layers
        last = min(view.left + view.cells, grid.experts) - 1
        return f"{layers}, experts {view.left}\N{EN DASH}{last} of {grid.experts}"

    def rows(self, width: int, height: int) -> list[Row]:
        residency, grid = self._feed.residency, self.grid
        if residency is None:
            known = self._feed.loaded is not None and self._feed.alive
            return wrap(COMES if known else "Waiting for the engine ...", width, LABEL)
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
            parts = ((of.widths[span], of.pinned[span], of.bounds[span], of.held[span]) for of in (old, new))
            if len(set(parts)) > 1:
                stale.add(layer // grid.layers_per_row % grid.rows)
        return stale

    def _view(self, grid: Grid, width: int, height: int) -> View:
        """The window around the chosen expert, moved as little as possible."""
        room = max((width - LABEL_CELLS - 1) // grid.cell_width, 1)
        rows = max(height - 1, 1) if grid.rows > height else height
        x, y = grid.locate(self.place) if self.place is not None else (LABEL_CELLS, 0)
        at, across = ((cells - LABEL_CELLS) // grid.cell_width for cells in (x, grid.width))
        left = window(across, room, at, self._corner[0])
        top = window(grid.rows, rows, y, self._corner[1])
        self._corner = (left, top)
        return View(top, left, rows, room)

    def _part(self, whole: list[Row], grid: Grid, width: int, height: int) -> list[Row]:
        """What is in view, with marks for what is beyond it; labels stay at the left edge."""
        view = self._view(grid, width, height)
        begin = LABEL_CELLS + view.left * grid.cell_width
        room = view.cells * grid.cell_width
        before, after = view.left > 0, begin + room < grid.width
        rows = []
        for row in whole[view.top : view.top + view.rows]:
            label = row[:LABEL_CELLS]
            if before and label[-1:] == text(" ", LABEL):  # a long label has no room for it
                label = [*label[:-1], *text(LEFT, LABEL)]
            part = row[begin : begin + room]
            rows.append([*label, *part, *blank(room - len(part)), *text(RIGHT if after else " ", LABEL)])
        if grid.rows > view.rows and len(rows) < height:
            rows.append(self._beyond(view, grid))
        return rows

    @staticmethod
    def _beyond(view: View, grid: Grid) -> Row:
        """How many layers are above and below."""
        a_row = grid.layers_per_row
        above, below = view.top * a_row, max(grid.layers - (view.top + view.rows) * a_row, 0)
        parts = [f"{mark} {count:,} more layers" for mark, count in ((UP, above), (DOWN, below)) if count]
        return text("   ".join(parts), LABEL)

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
