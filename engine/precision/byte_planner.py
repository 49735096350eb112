"""Plans of widths at given bytes: those of `WidthPlanner`, and what they leave over is used too."""

import numpy as np

from ebbtide.engine.precision.costs import F64, U8, Costs
from ebbtide.engine.precision.width_plan import HYSTERESIS, WidthPlanner


class BytePlanner:
    """For the blocks of `costs`, with damage f64[layers, 2, experts, WIDTHS] at each width for a weight of 1.

    Weights f64[layers * 2 * experts] are those of `block_weights`. No block is below one plane.
    """

    def __init__(self, damage: F64, costs: Costs) -> None:
        self._costs, full = costs, costs.full().reshape(-1)
        cost = np.repeat(costs.block_bytes()[:, :, None], costs.experts, axis=2)
        self._bytes = cost.reshape(full.size, -1)
        self._damage, self._full = damage.reshape(self._bytes.shape), full
        self._planner = WidthPlanner(self._bytes, self._damage, np.ones(full.size, np.uint8), full)

    def widths(
        self, weights: F64, target_bytes: int, current: U8 | None = None, *, hysteresis: float = HYSTERESIS
    ) -> U8:
        """u8[layers, 2, experts] of at most `target_bytes`, less by no plane that would fit.

        With `current` widths a change has to pay. Raises ImpossibleTarget for less than one plane takes.
        """
        self._planner.reweigh(weights)
        now = None if current is None else current.reshape(-1)
        plan = self._planner.plan(target_bytes, now, hysteresis=hysteresis)
        filled = self._filled(plan.widths, weights, target_bytes - plan.pages)
        return filled.reshape(self._costs.shape)

    def _filled(self, widths: U8, weights: F64, left: int) -> U8:
        """One plane more here and there while bytes are left: the last step is made whole, and may be one of
        several planes. What prevents most damage per byte comes first, ties by index.
        """
        blocks = np.arange(len(widths))
        while True:
            higher = np.minimum(widths + 1, self._full)
            added = self._bytes[blocks, higher] - self._bytes[blocks, widths]
            fits = np.flatnonzero((added > 0) & (added <= left))
            if not fits.size:
                return widths
            gain = self._damage[fits, widths[fits]] - self._damage[fits, higher[fits]]
            best = fits[np.argmax(weights[fits] * gain / added[fits])]
            widths[best] = higher[best]
            left -= int(added[best])
