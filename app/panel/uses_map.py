"""Beside the map, where there is room: how often each expert was used, in the same places."""

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import LABEL, Row, blank, text
from ebbtide.app.panel.expert_map import ExpertMap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import GAP_CELLS, LABEL_CELLS
from ebbtide.app.panel.inventory import uses_of
from ebbtide.app.panel.map_cells import uses_row

HEADING = "uses since load, full = the most used of its layer"


class UsesMap(Canvas):
    """Follows the layout of the map beside it; the screen shows it only where both fit."""

    def __init__(self, feed: PanelFeed, experts: ExpertMap) -> None:
        super().__init__()
        self._feed, self._experts = feed, experts

    def rows(self, width: int, height: int) -> list[Row]:
        residency, grid = self._feed.residency, self._experts.grid
        if residency is None or grid is None or grid.style != "bars":
            return []
        uses, count = uses_of(residency), residency.experts
        rows: list[Row] = []
        for y in range(grid.rows):
            row: Row = []
            for column in range(grid.columns):
                row += blank(GAP_CELLS if column else 0)
                for layer in grid.row_layers(column, y):
                    row += text(f"L{layer:02}".ljust(LABEL_CELLS), LABEL)
                    row += uses_row(uses[layer * count : (layer + 1) * count], grid)
            rows.append(row)
        if grid.rows + 2 <= height:
            rows += [[], text(HEADING[:width], LABEL)]
        return rows
