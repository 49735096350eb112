"""Planes where they help most: the greedy choice by damage per byte, along each block's convex hull."""

from itertools import pairwise

import numpy as np

from ebbtide.engine.precision.costs import F64, U8, Costs


def _hull(damage: F64, cost: F64, first: int, last: int) -> list[int]:
    """Widths from `first` to `last` on the lower convex hull of (cost, damage), both ends included where
    more cost means less damage.
    """
    hull = [first]
    for width in range(first + 1, last + 1):
        if damage[width] >= damage[hull[-1]] or cost[width] <= cost[hull[-1]]:
            continue
        while len(hull) > 1 and _slope(damage, cost, hull[-2], hull[-1]) <= _slope(
            damage, cost, hull[-1], width
        ):
            hull.pop()
        hull.append(width)
    return hull


def _slope(damage: F64, cost: F64, low: int, high: int) -> float:
    """Damage that a byte prevents between two widths."""
    return float((damage[low] - damage[high]) / (cost[high] - cost[low]))


def by_damage_per_byte(damage: F64, costs: Costs, target_bytes: int, floor: int = 1) -> U8:
    """Widths u8[layers, 2, experts] of at most `target_bytes`.

    From `floor` planes in every block on, the step that prevents most damage f64[layers, 2, experts, WIDTHS]
    per byte comes first (ties by index), until none fits any more; what damage tells nothing about is filled
    up in the order of the blocks. Without the last step it is the best choice of all that use as many bytes
    (Fox, 1966: marginal analysis of a sum of convex functions).
    """
    bytes_at = costs.block_bytes().astype(np.float64)
    widths = np.minimum(np.full(costs.shape, floor, np.uint8), costs.full())
    steps: list[tuple[float, int, int, int, int, int, int]] = []
    for layer, kind, expert in np.ndindex(costs.shape):
        own, cost = damage[layer, kind, expert], bytes_at[layer, kind]
        hull = _hull(own, cost, int(widths[layer, kind, expert]), int(costs.planes[layer, kind]))
        for low, high in pairwise(hull):
            gain, added = _slope(own, cost, low, high), int(cost[high] - cost[low])
            steps.append((-gain, layer, kind, expert, low, high, added))
    left = target_bytes - costs.expert_bytes(widths)
    for _, layer, kind, expert, low, high, added in sorted(steps):
        if added <= left and widths[layer, kind, expert] == low:
            widths[layer, kind, expert] = high
            left -= added
    return _filled(widths, costs, left)


def _filled(widths: U8, costs: Costs, left: int) -> U8:
    """One plane more here and there, from the first block on, while bytes are left: steps of several planes
    and those without damage leave some over.
    """
    bytes_at = costs.block_bytes()
    grown = True
    while grown:
        grown = False
        for layer, kind, expert in np.ndindex(costs.shape):
            width = int(widths[layer, kind, expert])
            if width == costs.planes[layer, kind]:
                continue
            added = int(bytes_at[layer, kind, width + 1] - bytes_at[layer, kind, width])
            if added <= left:
                widths[layer, kind, expert] = width + 1
                left, grown = left - added, True
    return widths
