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
"""Average widths of a layer are told apart to so many parts of a plane."""


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
    """Of each layer: two neighbouring widths, and the share of tokens computed with the higher one; u8, u8
    and f64 [layers].
    """

    low: U8
    high: U8
    share: F64

    def widths(self, costs: Costs, raised: NDArray[np.bool_]) -> U8:
        """u8[layers, 2, experts] with the higher width in the layers that are `raised` bool[layers]; a block
        with fewer planes has all of its own.
        """
        layers = np.where(raised, self.high, self.low)
        return np.minimum(costs.full(), layers[:, None, None]).astype(np.uint8)

    def held(self, costs: Costs) -> U8:
        """u8[layers, 2, experts]: the planes that have to be in memory, which are the higher width's wherever
        it is ever taken.
        """
        return self.widths(costs, self.share > 0)

    def read_bits(self, costs: Costs) -> float:
        """Planes read per expert weight, on the average of the tokens that the shares are of."""
        never, always = (self.widths(costs, np.full(len(self.low), at)) for at in (False, True))
        low, high = (_layer_bits(costs, widths) for widths in (never, always))
        return float((low + self.share * (high - low)).sum())


def dp_pairs(damage: F64, frequency: F64, costs: Costs, bits: float, unit: F64 | None = None) -> Pairs:
    """DP-LLM's choice: an average width of each layer such that all layers' damage is least, for planes that
    are *read* (all of the higher width stay in memory); at run time a layer takes the higher width for tokens
    whose estimated error is above `threshold`.

    Between two widths damage is taken to fall by a constant factor, so that layers get parts of a plane.
    `frequency` and `unit` as in `static`.
    """
    weights = block_weights(frequency, unit=unit).reshape(costs.shape)
    weighted = (damage * weights[..., None]).sum(axis=(1, 2))
    most = int(costs.planes.max())
    average = _water_filled(_between(weighted, most), costs, costs.target_bytes(bits))
    planes = costs.planes.max(axis=1)
    low = np.maximum(np.minimum(np.floor(average), planes - 1.0), 1).astype(np.uint8)
    high = np.minimum(low + 1, planes).astype(np.uint8)
    return Pairs(low, high, np.where(high > low, average - low, 0.0))


def threshold(errors: F64, share: float) -> float:
    """The estimated error above which a layer takes its higher width, so that it does for `share` of the
    tokens with these `errors` f64[n].
    """
    if share <= 0 or share >= 1:
        return float("inf") if share <= 0 else float("-inf")
    return float(np.quantile(errors, 1 - share))


def _layer_bits(costs: Costs, widths: U8) -> F64:
    """What each layer adds to `Costs.average_bits`, f64[layers]."""
    used = np.take_along_axis(costs.plane_bytes, widths.astype(np.int64), axis=2).sum(axis=(1, 2))
    return np.asarray(8 * used / (costs.weight_bits.sum() * costs.experts))


def _between(damage: F64, most: int) -> F64:
    """f64[layers, steps]: from one plane to `most` in parts of a plane."""
    tiny = np.finfo(np.float64).tiny
    # The last plane's factor is that of the one before: with all planes damage is 0, and has no logarithm.
    known = damage.copy()
    if most > 2:
        known[:, most] = np.minimum(known[:, most - 1] ** 2 / np.maximum(known[:, most - 2], tiny), 1e300)
    at = np.arange(1, most + 1)
    fine = np.linspace(1, most, (most - 1) * DP_STEPS + 1)
    logs = np.log(np.maximum(known[:, 1 : most + 1], tiny))
    parts: F64 = np.exp(np.array([np.interp(fine, at, layer) for layer in logs]))
    return parts


def _water_filled(damage: F64, costs: Costs, target_bytes: int) -> F64:
    """Average width of each layer f64[layers]: the best step of any layer first, while it fits."""
    # A layer's blocks may have different planes: above the fewer ones a step costs less.
    steps: F64 = np.diff(costs.plane_bytes.sum(axis=1), axis=1) * costs.experts / DP_STEPS
    at = np.zeros(len(damage), np.int64)
    left = float(target_bytes - costs.expert_bytes(np.ones(costs.shape, np.uint8)))
    last = (costs.planes.max(axis=1).astype(np.int64) - 1) * DP_STEPS
    layers = np.arange(len(damage))
    while True:
        following = np.minimum(at + 1, last)
        one = steps[layers, np.minimum(at // DP_STEPS + 1, steps.shape[1] - 1)]
        gain = (damage[layers, at] - damage[layers, following]) / np.maximum(one, 1e-9)
        able = (at < last) & (one <= left + 1e-6)
        if not able.any():
            return 1 + at / DP_STEPS
        best = int(np.argmax(np.where(able, gain, -1.0)))
        at[best] += 1
        left -= one[best]
