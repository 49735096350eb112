"""The steps down that blocks can make along their hulls, and lists of them by price."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.hull import F64, I64, U8

Flags = NDArray[np.bool_]


class Steps(NamedTuple):
    """Every block's steps, widest first; one that is not there gives no pages, at an endless price.

    to u8[B, S]: the width after the step; pages i64[B, S]: what it gives back; price f64[B, S]: its damage
    per page. A list of steps has their numbers: block * S + step.
    """

    to: U8
    pages: I64
    price: F64


def steps_along(hulls: U8, cost: I64, damage: F64) -> Steps:
    """The steps along hulls u8[B, W] (`hull_widths`, W > 1) with cost i64[B, W] and damage f64[B, W]."""
    # As many columns as the longest hull has steps: every one more is sorted for nothing.
    length = int((hulls[:, 1:] < hulls[:, :-1]).any(axis=0).sum())
    hulls = hulls[:, : max(length, 1) + 1]
    cost_at = np.take_along_axis(cost, hulls, axis=1)
    damage_at = np.take_along_axis(damage, hulls, axis=1)
    pages = cost_at[:, :-1] - cost_at[:, 1:]
    price = np.full(pages.shape, np.inf)
    np.divide(damage_at[:, 1:] - damage_at[:, :-1], pages, out=price, where=pages > 0)
    return Steps(hulls[:, 1:], pages, price)


def weighted(steps: Steps, weights: F64) -> Steps:
    """The same steps where a unit of a block's damage counts `weights` f64[B]; what is endless stays so."""
    price = np.full(steps.price.shape, np.inf)
    np.multiply(steps.price, weights[:, None], out=price, where=steps.pages > 0)
    return steps._replace(price=price)


def in_order(price: F64) -> F64:
    """Prices f64[B, S] that rounding cannot turn around: no step of a block is cheaper than one before."""
    return np.maximum.accumulate(price, axis=1)


def cheapest_first(price: F64) -> I64:
    """The list of all steps by price; ties by number.

    A stable sort, several times as fast as numpy's: ties are put right behind a vectorised one.
    """
    values = price.reshape(-1)
    order = np.argsort(values)
    ranked = values[order]
    is_same = ranked[1:] == ranked[:-1]
    is_tied = np.concatenate((is_same, [False])) | np.concatenate(([False], is_same))
    run = np.concatenate(([0], np.cumsum(~is_same)))
    order[is_tied] = np.sort(run[is_tied] * len(values) + order[is_tied]) % len(values)
    return order


def merged(order: I64, is_made: Flags, price: F64) -> I64:
    """The list by `price`, from one under which made and unmade steps are in order each by themselves.

    Of equal price the made ones come first, then those that were first.
    """
    made = is_made.reshape(-1)[order]
    runs = np.concatenate((order[made], order[~made]))
    # Two sorted runs, which a stable sort finds and merges.
    return runs[np.argsort(price.reshape(-1)[runs], kind="stable")]
