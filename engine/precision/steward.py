"""Which widths the experts of a model have for so many pages: damage, what is routed to, and floors, brought
together for the planner.
"""

import numpy as np

from ebbtide.engine.memory.portions import portion_of
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.precision.floors import measured_floors
from ebbtide.engine.precision.hull import F64, I64, U8
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import HOT_PLANES, HOT_SHARE, Quality
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.routing_mass import block_weights
from ebbtide.engine.precision.width_plan import WidthPlanner
from ebbtide.kernels.layout import MAX_PLANES


class Steward:
    """Plans for the blocks of a table, u8[layers, 2, experts]; commits nothing. `routes` brings what is
    routed to. The same damage, routes and targets give the same plans.
    """

    def __init__(self, table: WeightPageTable, known: Known, routes: Routes, quality: Quality) -> None:
        self._shape = table.committed.shape
        self._routes = routes
        most = np.broadcast_to(table.most, self._shape).astype(np.uint8)
        self._most = most
        self._base = measured_floors(known.damage, most, quality.tolerated)
        self._cost = _costs(table)
        self._damage = known.damage.reshape(-1, MAX_PLANES + 1)
        self._unit = known.unit
        self._planner = WidthPlanner(self._cost, self._damage, self._base.ravel(), most.ravel())
        self.look_at_routes()

    def look_at_routes(self) -> None:
        """Weigh blocks by what was routed to until now."""
        self._routes.add_up()
        routing = self._routes.routing
        self._planner.reweigh(block_weights(routing.mass(), unit=self._unit))
        self._planner.bound(
            routing.floors(self._base, HOT_SHARE, HOT_PLANES, self._most).ravel(), self._most.ravel()
        )

    @property
    def floor_pages(self) -> int:
        """Pages of all experts at their floors: for less, experts have to leave."""
        return self._planner.floor_pages

    @property
    def whole_pages(self) -> int:
        """Pages of all experts with every plane."""
        return self._planner.whole_pages

    def plan(self, target_pages: int, current: U8) -> U8:
        """Widths for at most `target_pages`, or at the floors where those need more, near `current`."""
        target = max(target_pages, self._planner.floor_pages)
        return self._planner.plan(target, current.ravel()).widths.reshape(self._shape)

    def pages(self, widths: U8) -> int:
        """What all experts take at these widths."""
        return int(self._cost[np.arange(len(self._cost)), widths.ravel()].sum())

    def damage(self, widths: U8) -> float:
        """What they lose at these widths, weighed as in a plan."""
        weights = block_weights(self._routes.routing.mass(), unit=self._unit)
        own: F64 = self._damage[np.arange(len(self._damage)), widths.ravel()]
        return float((weights * own).sum())


def _costs(table: WeightPageTable) -> I64:
    """Pages of every block at every width, i64[blocks, 9]; nothing at 0."""
    at_widths = [
        [[0, *(portion_of(layout, width).pages for width in range(1, MAX_PLANES + 1))] for layout in pair]
        for pair in table.layouts
    ]
    costs = np.array(at_widths, np.int64)[:, :, None]
    shape = (*table.committed.shape, MAX_PLANES + 1)
    return np.broadcast_to(costs, shape).reshape(-1, MAX_PLANES + 1)
