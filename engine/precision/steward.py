"""Which widths the experts of a model have for so many pages: damage, what is routed to, and floors, brought
together for the planner.
"""

from typing import NamedTuple

import numpy as np

from ebbtide.engine.memory.portions import portion_of
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.precision.bounds import Bounds
from ebbtide.engine.precision.floors import Flags, hot_experts, measured_floors, raised
from ebbtide.engine.precision.hull import F64, I64, U8
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import HOT_PLANES, HOT_SHARE, Quality
from ebbtide.engine.precision.routing_mass import block_weights
from ebbtide.engine.precision.width_plan import WidthPlanner
from ebbtide.kernels.layout import MAX_PLANES


class Question(NamedTuple):
    """What a plan is made from; nobody changes it afterwards."""

    mass: F64
    """f64[layers, experts]: what was routed until then, see `RoutingMass.mass`."""
    current: U8
    """u8[layers, 2, experts], committed then."""
    target_pages: int
    bounds: Bounds | None = None
    """A person's."""


class Proposal(NamedTuple):
    """Widths u8[layers, 2, experts] near those asked about, for at most the target, or as narrow as the
    quality allows where that needs more.
    """

    widths: U8
    pages: int
    damage: float
    """What they lose, weighed by mass and by what errors cost; in nats a token where that is known."""
    damage_now: float
    """What the current ones lose, weighed alike."""
    least_pages: int = 0
    """What quality and bounds allow."""


class Steward:
    """Plans for the blocks of a table, and commits nothing. It keeps no part of the table, so it may outlive
    the model's memory.

    `plan` belongs to one thread at a time; what is said of pages may be asked by any. The same damage and
    questions, in the same order, give the same plans: experts that were hot at one stay so until others
    clearly take over.
    """

    def __init__(self, table: WeightPageTable, known: Known, quality: Quality) -> None:
        self._shape = table.committed.shape
        self._most = np.broadcast_to(table.most, self._shape).astype(np.uint8)
        self._quality = quality.name
        self._nats = quality.nats if known.unit is not None else None
        tolerated = quality.alone if self._nats is None else quality.tolerated
        self._base = measured_floors(known.damage, self._most, tolerated)
        self._cost = _costs(table)
        self._blocks = np.arange(len(self._cost))
        self._damage = known.damage.reshape(-1, MAX_PLANES + 1)
        self._unit, self._residuals = known.unit, known.residuals
        self._were_hot: Flags | None = None
        self._planner = WidthPlanner(self._cost, self._damage, self._base.ravel(), self._most.ravel())
        self.whole_pages = self._planner.whole_pages
        """Pages of all experts with every plane."""

    def plan(self, question: Question) -> Proposal:
        """The best widths that the question allows."""
        weights = self._weights(question.mass)
        self._planner.reweigh(weights)
        self._were_hot = hot_experts(question.mass, HOT_SHARE, were_hot=self._were_hot)
        floors = raised(self._base, self._were_hot, HOT_PLANES, self._most)
        most = self._most if question.bounds is None else question.bounds.most
        if question.bounds is not None:
            floors = question.bounds.floors(floors)
        self._planner.bound(floors.ravel(), most.ravel())
        least = self._least_pages(self._planner)
        target = max(question.target_pages, least)
        found = self._planner.plan(target, question.current.ravel())
        widths = found.widths.reshape(self._shape)
        lost, lost_now = (self._lost(weights, at) for at in (widths, question.current))
        return Proposal(widths, found.pages, lost, lost_now, least)

    @property
    def most(self) -> U8:
        """Planes of all blocks, u8[layers, 2, experts]; a copy."""
        return self._most.copy()

    def why_whole(self, layer: int, expert: int) -> str:
        """Why an expert never has fewer than all its planes; empty where it may."""
        most, least = self._most[layer, :, expert], self._base[layer, :, expert]
        if (least < most).any():
            return ""
        return f"Fewer than its {most.max()} bits would lose more than --quality {self._quality} allows"

    def least_pages(self, bounds: Bounds, mass: F64) -> int:
        """What all experts take at the lowest widths that quality and bounds allow; nobody is hot."""
        floors, most = bounds.floors(self._base), bounds.most
        if self._nats is None:
            return self.pages(floors)
        planner = WidthPlanner(self._cost, self._damage, floors.ravel(), most.ravel())
        planner.reweigh(self._weights(mass))
        return self._least_pages(planner)

    def _weights(self, mass: F64) -> F64:
        residual = self._residuals.of(mass) if self._residuals is not None else None
        return block_weights(mass, residual, self._unit)

    def _least_pages(self, planner: WidthPlanner) -> int:
        """What the floors take, or what costs as much as the quality allows."""
        least = planner.floor_pages
        if self._nats is None:
            return least
        curve = planner.curve()
        at = int(np.searchsorted(curve.damage, self._nats, side="right")) - 1
        return max(int(curve.pages[max(at, 0)]), least)

    def pages(self, widths: U8) -> int:
        """What all experts take at these widths."""
        return int(self._cost[self._blocks, widths.ravel()].sum())

    def _lost(self, weights: F64, widths: U8) -> float:
        return float((weights * self._damage[self._blocks, widths.ravel()]).sum())


def _costs(table: WeightPageTable) -> I64:
    """Pages of every block at every width, i64[blocks, 9]; nothing at 0."""
    at_widths = [
        [[0, *(portion_of(layout, width).pages for width in range(1, MAX_PLANES + 1))] for layout in pair]
        for pair in table.layouts
    ]
    costs = np.array(at_widths, np.int64)[:, :, None]
    shape = (*table.committed.shape, MAX_PLANES + 1)
    return np.broadcast_to(costs, shape).reshape(-1, MAX_PLANES + 1)
