"""Lower convex hulls: the widths of a block that are worth having, and the order to give them up in.

A block costs `cost[b]` pages at width b and damages the model by `damage[b]`. Only widths on the lower convex
hull of the points (cost, damage) are ever the best use of pages over many blocks. Along it every further step
down damages more for each page than the one before, so a greedy by damage per page is optimal (B. Fox,
"Discrete optimization via marginal analysis", 1966).
"""

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


def without_gains(damage: F64) -> F64:
    """f64[..., W] in which no width is better than a wider one, as noise in what was measured may have it."""
    return np.maximum.accumulate(damage[..., ::-1], axis=-1)[..., ::-1]


def lower_hull(damage: F64, cost: I64) -> I64:
    """The widths (indices, rising) on the lower convex hull of one block's points, also those on its edges.

    damage f64[W], cost i64[W], which never falls. Of widths with equal cost only the widest counts. The
    widest of all and the widest of the cheapest are always there.
    """
    floors, most = np.zeros(1, np.uint8), np.full(1, len(cost) - 1, np.uint8)
    return np.unique(hull_widths(without_gains(damage)[None], cost[None], floors, most)).astype(np.int64)


def hull_widths(damage: F64, cost: I64, floors: U8, most: U8) -> U8:
    """u8[B, W]: every block's hull between its floor and its most, widest first; the last width repeats.

    damage f64[B, W] never rises along W, cost i64[B, W] never falls; floors and most u8[B].
    """
    count = damage.shape[1]
    hulls = np.repeat(most[:, None], count, axis=1)
    rows, at = np.arange(len(most)), most.astype(np.int64)
    for step in range(1, count):
        nearest, is_step = _next_widths(damage[rows], cost[rows], floors[rows], at)
        rows, at = rows[is_step], nearest[is_step]
        hulls[rows, step:] = at[:, None]
    return hulls


def _next_widths(damage: F64, cost: I64, floors: U8, at: I64) -> tuple[I64, NDArray[np.bool_]]:
    """The width after `at` i64[n] on each hull: the end of the least steep line down; and whether one is."""
    rows, widths = np.arange(len(at)), np.arange(damage.shape[1])
    pages = cost[rows, at][:, None] - cost
    open_to = (widths >= floors[:, None]) & (widths < at[:, None]) & (pages > 0)
    lost = damage - damage[rows, at][:, None]
    slopes = np.divide(lost, pages, out=np.full(pages.shape, np.inf), where=open_to)
    # Of equal slopes the widest, so that steps are small and points on an edge are met.
    nearest = damage.shape[1] - 1 - np.argmin(slopes[:, ::-1], axis=1)
    return nearest, np.isfinite(slopes[rows, nearest])
