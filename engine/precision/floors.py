"""How low a block may fall: what its damage bears, and a plane or two more for experts that are in demand."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.hull import F64, U8, without_gains

Flags = NDArray[np.bool_]


def measured_floors(damage: F64, planes: U8, tolerated: float) -> U8:
    """The fewest planes at which a block loses at most `tolerated` of its output's power; at least 1.

    damage f64[..., W]: at each width, entry 0 with the block left out, so damage[b] / damage[0] is the noise
    of width b as a share of the signal (0.01 is an SQNR of 20 dB); planes u8[...], 1 .. W - 1. The floor is
    at most `planes`, and every width from it up is within what is tolerated.
    """
    damage = without_gains(damage.astype(np.float64))
    too_much = damage > tolerated * damage[..., :1]
    floors: U8 = np.minimum(1 + too_much[..., 1:].sum(axis=-1), planes).astype(np.uint8)
    return floors


def hot_experts(mass: F64, hot_share: float, *, were_hot: Flags | None = None, stick: float = 1.25) -> Flags:
    """bool[layers, experts]: the fewest experts of each layer that carry `hot_share` of its mass together.

    An expert must have `stick` times the layer's mean: where routing is flat, nobody stands out. Those in
    `were_hot` count `stick` times (and so stay hot down to the mean), so that experts which are nearly alike
    do not take turns.
    """
    weight = mass if were_hot is None else mass * np.where(were_hot, stick, 1.0)
    order = np.argsort(-weight, axis=1, kind="stable")
    ranked = np.take_along_axis(weight, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    is_needed = np.zeros(mass.shape, np.bool_)
    needed = hot_share * weight.sum(axis=1, keepdims=True)
    np.put_along_axis(is_needed, order, before < needed, axis=1)
    is_hot: Flags = is_needed & (weight > 0) & (weight >= stick * mass.mean(axis=1, keepdims=True))
    return is_hot


def raised(base: U8, is_hot: Flags, extra: int, most: U8 | None = None) -> U8:
    """Floors u8[layers, 2, experts], `extra` planes higher for both blocks of hot experts, up to `most`."""
    ceiling = np.full(base.shape, 8, np.uint8) if most is None else most
    lifted = np.minimum(base.astype(np.int64) + extra, ceiling)
    return np.where(is_hot[:, None], np.maximum(lifted, base), base).astype(np.uint8)
