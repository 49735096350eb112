"""Arms to compare with: widths of all blocks for one average of planes per expert weight.

At the same `bits` every arm takes the same bytes (scales and planes of `Costs.target_bytes`), up to the one
plane of one block that does not fit any more. Widths are u8[layers, 2 (gate_up, down), experts]; damage is
f64[layers, 2, experts, WIDTHS], at each width, per unit of routed mass. All raise UsageError for an average
that cannot be had.

The arm `dp` is the exception in what its bytes are: see `dp_arm.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.byte_planner import BytePlanner
from ebbtide.engine.precision.costs import F64, I64, U8, WIDTHS, Costs
from ebbtide.engine.precision.routing_mass import block_weights

DP_STEPS = 16
"""Average widths of the arm dp are told apart to so many parts of a plane."""


def uniform(costs: Costs, bits: float) -> U8:
    """The same width everywhere (Any-Precision LLM); a part of a plane becomes that share of the blocks with
    one plane more, spread evenly in the order of their indices.
    """
    target, full = costs.target_bytes(bits), costs.full()
    level = max(w for w in range(1, WIDTHS) if costs.expert_bytes(np.minimum(full, np.uint8(w))) <= target)
    widths: U8 = np.minimum(full, np.uint8(level))
    at, flat, most = costs.block_bytes(), widths.reshape(-1), full.reshape(-1)
    layer, kind, _ = (index.reshape(-1) for index in np.indices(costs.shape))
    upper = np.minimum(flat + 1, most)
    added: I64 = at[layer, kind, upper] - at[layer, kind, flat]
    left = target - costs.expert_bytes(widths)
    share = left / max(int(added.sum()), 1)
    due = np.cumsum(added) * share + 1e-6
    given = 0
    for block, more in enumerate(added.tolist()):
        if more and given + more <= due[block]:
            flat[block] += 1
            given += more
    return widths


def static(damage: F64, frequency: F64, costs: Costs, bits: float, unit: F64 | None = None) -> U8:
    """Mixed widths fixed once: sensitivity times how often calibration text went to an expert (MxMoE's idea).

    `frequency` f64[layers, experts] in any unit; `unit` f64[layers, 2] as in `block_weights`.
    """
    weights = block_weights(frequency, unit=unit)
    return BytePlanner(damage, costs).widths(weights, costs.target_bytes(bits))


def even_damage(costs: Costs) -> F64:
    """Damage that knows nothing of weights and inputs: a quarter with each plane more (a uniform rounding
    error's square), 0 with all of them. For the arm without sensitivity.
    """
    width = np.arange(WIDTHS)
    weights = costs.weight_bits[:, :, None].astype(np.float64)
    damage = np.where(width >= costs.planes[:, :, None], 0.0, weights * 0.25**width)
    return np.repeat(damage[:, :, None, :], costs.experts, axis=2)


class Pairs(NamedTuple):
    """Of each layer and kind of block: two neighbouring widths, and the share of tokens computed with the
    higher one; u8, u8 and f64 [layers, 2 (gate_up, down)].
    """

    low: U8
    high: U8
    share: F64

    def widths(self, costs: Costs, raised: NDArray[np.bool_]) -> U8:
        """u8[layers, 2, experts] with the higher width where it is `raised` bool[layers, 2]."""
        return np.repeat(np.where(raised, self.high, self.low)[:, :, None], costs.experts, axis=2)

    def held(self, costs: Costs) -> U8:
        """u8[layers, 2, experts]: the planes that have to be in memory, which are the higher width's wherever
        it is ever taken.
        """
        return self.widths(costs, self.share > 0)

    def read_bits(self, costs: Costs) -> float:
        """Planes read per expert weight, on the average of the tokens that the shares are of."""
        low, high = (_own_bits(costs, widths) for widths in (self.low, self.high))
        return float((low + self.share * (high - low)).sum())


def dp_pairs(
    damage: F64,
    frequency: F64,
    costs: Costs,
    bits: float,
    unit: F64 | None = None,
    remaining: F64 | None = None,
) -> Pairs:
    """DP-LLM's choice: an average width of each layer and kind such that all their damage is least, for
    planes that are *read* (all of the higher width stay in memory); at run time they take the higher width
    for tokens whose estimated error is above `threshold`.

    `remaining` f64[layers, 2, DP_STEPS + 1]: the part of what the lower width damages more that is left when
    0, 1 / DP_STEPS ... all of the tokens get the higher one; None = as much as of tokens chosen blindly.
    `frequency` and `unit` as in `static`.
    """
    weights = block_weights(frequency, unit=unit).reshape(costs.shape)
    rows = (damage * weights[..., None]).sum(axis=2).reshape(-1, WIDTHS)
    blindly = np.linspace(1, 0, DP_STEPS + 1)
    left = np.tile(blindly, (len(rows), 1)) if remaining is None else remaining.reshape(len(rows), -1)
    average = _water_filled(_in_parts(rows, left), costs, costs.target_bytes(bits))
    planes = costs.planes.astype(np.float64)
    low = np.maximum(np.minimum(np.floor(average), planes - 1), 1)
    high = np.minimum(low + 1, planes)
    share = np.where(high > low, average - low, 0.0)
    return Pairs(low.astype(np.uint8), high.astype(np.uint8), share)


def threshold(errors: F64, share: float) -> float:
    """The estimated error above which blocks take their higher width, so that they do for `share` of the
    tokens with these `errors` f64[n].
    """
    if share <= 0 or share >= 1:
        return float("inf") if share <= 0 else float("-inf")
    return float(np.quantile(errors, 1 - share))


def _own_bits(costs: Costs, widths: U8) -> F64:
    """What each layer and kind adds to `Costs.average_bits` at widths u8[layers, 2]: f64[layers, 2]."""
    used = np.take_along_axis(costs.plane_bytes, widths.astype(np.int64)[..., None], axis=2)[..., 0]
    return np.asarray(8 * used / costs.weight_bits.sum())


def _in_parts(damage: F64, remaining: F64) -> F64:
    """f64[rows, steps + 1]: damage f64[rows, WIDTHS] from one plane on in parts of a plane."""
    more = damage[:, 1:-1] - damage[:, 2:]
    parts = damage[:, 2:, None] + more[..., None] * remaining[:, None, :-1]
    return np.concatenate([parts.reshape(len(damage), -1), damage[:, -1:]], axis=1)


def _water_filled(damage: F64, costs: Costs, target_bytes: int) -> F64:
    """Average widths f64[layers, 2] of damage f64[layers * 2, steps + 1]: what spares most a byte first, as
    long as it fits.
    """
    plane_bytes = costs.plane_bytes.reshape(-1, WIDTHS)
    one = np.repeat(np.diff(plane_bytes, axis=1)[:, 1:], DP_STEPS, axis=1) * costs.experts / DP_STEPS
    last = (costs.planes.reshape(-1).astype(np.int64) - 1) * DP_STEPS
    at, rows = np.zeros(len(damage), np.int64), np.arange(len(damage))
    worth = np.array(
        [_falling(damage[row, : last[row] + 1], one[row, : last[row]], one.shape[1]) for row in rows]
    )
    left = float(target_bytes - costs.expert_bytes(np.ones(costs.shape, np.uint8)))
    while True:
        step = np.minimum(at, one.shape[1] - 1)
        able = (at < last) & (one[rows, step] <= left + 1e-6)
        if not able.any():
            return (1 + at / DP_STEPS).reshape(costs.shape[:2])
        best = int(np.argmax(np.where(able, worth[rows, step], -np.inf)))
        left -= float(one[best, at[best]])
        at[best] += 1


def _falling(damage: F64, cost: F64, length: int) -> F64:
    """What each step spares a byte, f64[length]; where a later one spares more than those before it, all of
    them count as their mean (the lower convex hull of damage over bytes), or nobody would get to it.
    """
    groups: list[tuple[float, float, int]] = []
    for spared, size in zip(-np.diff(damage), np.maximum(cost, 1e-9), strict=True):
        group = float(spared), float(size), 1
        while groups and group[0] / group[1] >= groups[-1][0] / groups[-1][1]:
            before = groups.pop()
            group = group[0] + before[0], group[1] + before[1], group[2] + before[2]
        groups.append(group)
    found = [spared / size for spared, size, steps in groups for _ in range(steps)]
    return np.array(found + [0.0] * (length - len(found)))
