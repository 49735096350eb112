"""Which width every block gets, so that all fit into so many pages and lose as little as they can.

Every step down along a block's hull gives pages back and costs damage. All steps of all blocks by damage per
page are one list. Its first steps, as many as a target needs, are the plan for it, whether one comes from
above (lowering) or from below (promotion takes the last steps back).

*Hysteresis.* Weights move a little all the time, and the list with them. A plan that starts from current
widths has a list of its own, in which a step that is not made yet looks `hysteresis` times as costly. So a
block gives planes up for another one only where that pays by this factor; what the target needs is given up
in any case, and pages that are free are used. With the weights of the last plan both lists give the same
widths. With others, the damage beyond that of whole blocks is at most `hysteresis` times the least possible
one, and the last step, which is made whole. Current widths that are off the hull obey the same rule: they
stay if they are on that of the curve that is bent at them.
"""

from typing import NamedTuple

import numpy as np

from ebbtide.engine.errors import FitError
from ebbtide.engine.precision.hull import F64, I64, U8, hull_widths, without_gains
from ebbtide.engine.precision.plan_steps import Steps, cheapest_first, in_order, merged, steps_along, weighted

HYSTERESIS = 1.25


class ImpossibleTarget(FitError):
    """Blocks at their floors need more pages than the target has."""

    def __init__(self, target_pages: int, floor_pages: int) -> None:
        super().__init__(
            f"the experts need {floor_pages:,} pages at their lowest widths, and there are {target_pages:,}",
            hint=f"Give them {floor_pages - target_pages:,} pages more (a larger budget or a shorter "
            "context), or let widths fall lower.",
        )
        self.target_pages, self.floor_pages = target_pages, floor_pages


class Plan(NamedTuple):
    """Widths u8[B] of all blocks, the pages that they take, and the (weighted) damage that they do."""

    widths: U8
    pages: int
    damage: float


class Curve(NamedTuple):
    """What plans from scratch take and cost, from whole blocks to floors: i64[n] falls, f64[n] rises."""

    pages: I64
    damage: F64


class WidthPlanner:
    """Plans for B blocks that have widths 0 .. W - 1 (0 to 8 planes: W = 9).

    cost i64[B, W]: pages at each width, never falling. damage f64[B, W]: damage at each width for a weight of
    1 (`reweigh`). floors and most u8[B]: the widths between which a block stays; `most` is not above its
    planes. Equal input gives equal plans: ties go by block, then from wide to narrow. Not for several
    threads at once. Raises ValueError for arrays that do not fit together.
    """

    def __init__(self, cost: I64, damage: F64, floors: U8, most: U8) -> None:
        _check(cost, damage)
        self._cost, self._damage = cost.astype(np.int64), without_gains(damage.astype(np.float64))
        self._rows, self._weights = np.arange(len(cost)), np.ones(len(cost))
        self._floors, self._most = _checked_bounds(floors, most, cost)
        self._hulls = self._hulls_of(self._rows, self._damage)
        self._steps = steps_along(self._hulls, self._cost, self._damage)
        self._sorted: tuple[Steps, I64] | None = None

    def reweigh(self, weights: F64) -> None:
        """Take weights f64[B], finite and at least 0: what a unit of each block's damage counts from now on.

        Hulls do not depend on a factor; only the list is sorted anew, at the next plan. Raises ValueError.
        """
        if weights.shape != self._weights.shape or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(f"weights must be {len(self._rows)} finite numbers of at least 0")
        self._weights, self._sorted = weights.astype(np.float64), None

    def bound(self, floors: U8, most: U8) -> None:
        """Take new bounds u8[B]; hulls are found anew where they changed. Raises ValueError."""
        floors, most = _checked_bounds(floors, most, self._cost)
        changed = np.flatnonzero((floors != self._floors) | (most != self._most))
        self._floors, self._most = floors, most
        if len(changed):
            self._hulls[changed] = self._hulls_of(changed, self._damage[changed])
            self._steps = steps_along(self._hulls, self._cost, self._damage)
            self._sorted = None

    @property
    def floor_pages(self) -> int:
        """Pages of all blocks at their floors: the least target that is possible."""
        return int(self._cost[self._rows, self._floors].sum())

    @property
    def whole_pages(self) -> int:
        """Pages of all blocks at their most: from this target on nothing is lowered."""
        return int(self._cost[self._rows, self._most].sum())

    def plan(self, target_pages: int, current: U8 | None = None, *, hysteresis: float = HYSTERESIS) -> Plan:
        """Widths for at most `target_pages`: the best ones, or nearly as good ones near `current` u8[B].

        Raises ImpossibleTarget for less than `floor_pages`, ValueError for a hysteresis below 1.
        """
        if hysteresis < 1:
            raise ValueError(f"a change cannot have to pay by a factor of {hysteresis}, which is below 1")
        if target_pages < self.floor_pages:
            raise ImpossibleTarget(target_pages, self.floor_pages)
        if current is None:
            return self._cut(*self._from_scratch(), target_pages)
        return self._cut(*self._near(current, hysteresis), target_pages)

    def curve(self) -> Curve:
        """All plans from scratch at once."""
        steps, order = self._from_scratch()
        pages = steps.pages.reshape(-1)[order]
        order, pages = order[pages > 0], pages[pages > 0]
        whole = self._plan_of(self._most)
        lost = np.cumsum(pages * steps.price.reshape(-1)[order])
        return Curve(
            whole.pages - np.concatenate(([0], np.cumsum(pages))),
            whole.damage + np.concatenate(([0.0], lost)),
        )

    def _hulls_of(self, rows: I64, damage: F64) -> U8:
        return hull_widths(damage, self._cost[rows], self._floors[rows], self._most[rows])

    def _from_scratch(self) -> tuple[Steps, I64]:
        """All steps, and the list of them."""
        if self._sorted is None:
            steps = weighted(self._steps, self._weights)
            steps = steps._replace(price=in_order(steps.price))
            self._sorted = steps, cheapest_first(steps.price)
        return self._sorted

    def _near(self, current: U8, hysteresis: float) -> tuple[Steps, I64]:
        """All steps, and the list of them in which unmade ones look `hysteresis` times as costly."""
        now = np.clip(current, self._floors, self._most)
        strays = np.flatnonzero(~(self._hulls == now[:, None]).any(axis=1))
        steps, order = self._from_scratch()
        if len(strays):
            steps = self._steps_with(strays, now, hysteresis)
        is_made = now[:, None] <= steps.to
        price = in_order(np.where(is_made, 1.0, hysteresis) * steps.price)
        return steps, merged(cheapest_first(price) if len(strays) else order, is_made, price)

    def _steps_with(self, strays: I64, now: U8, hysteresis: float) -> Steps:
        """All steps; those of blocks that are off their hulls lead along the curves bent at `now`."""
        hulls = self._hulls.copy()
        hulls[strays] = self._hulls_of(strays, _bent(self._damage[strays], now[strays], hysteresis))
        return weighted(steps_along(hulls, self._cost, self._damage), self._weights)

    def _cut(self, steps: Steps, order: I64, target_pages: int) -> Plan:
        """Make steps in this order until the target is met."""
        needed = self.whole_pages - target_pages
        if needed <= 0:
            return self._plan_of(self._most)
        given = np.cumsum(steps.pages.reshape(-1)[order])
        is_made = np.zeros(steps.pages.size, np.bool_)
        is_made[order[: int(np.searchsorted(given, needed)) + 1]] = True
        made = is_made.reshape(steps.pages.shape).sum(axis=1)
        after = steps.to[self._rows, np.maximum(made - 1, 0)]
        return self._plan_of(np.where(made > 0, after, self._most))

    def _plan_of(self, widths: U8) -> Plan:
        pages = int(self._cost[self._rows, widths].sum())
        damage = float((self._weights * self._damage[self._rows, widths]).sum())
        return Plan(widths.copy(), pages, damage)


def _bent(damage: F64, now: U8, hysteresis: float) -> F64:
    """Curves f64[n, W] that rise `hysteresis` times as fast below the widths `now` u8[n]."""
    at = np.take_along_axis(damage, now[:, None], axis=1)
    is_below = np.arange(damage.shape[1]) < now[:, None]
    return np.where(is_below, at + hysteresis * (damage - at), damage)


def _check(cost: I64, damage: F64) -> None:
    if cost.ndim != 2 or cost.shape != damage.shape or not cost.size:
        raise ValueError(f"cost {cost.shape} and damage {damage.shape} must both be [blocks, widths]")
    if (np.diff(cost, axis=1) < 0).any():
        raise ValueError("a wider block cannot take fewer pages")
    if not np.isfinite(damage).all() or (damage < 0).any():
        raise ValueError("damage must be finite and at least 0")


def _checked_bounds(floors: U8, most: U8, cost: I64) -> tuple[U8, U8]:
    blocks, count = cost.shape
    if floors.shape != (blocks,) or most.shape != (blocks,):
        raise ValueError(f"floors {floors.shape} and most {most.shape} must each be one width a block")
    if (floors > most).any() or (most >= count).any():
        raise ValueError(f"floors must not be above the most of a block, nor that above {count - 1}")
    return floors.astype(np.uint8), most.astype(np.uint8)
