"""Medians of pairwise ratios, and how sure they are."""

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import NamedTuple

LEVEL = 0.95


class Ratio(NamedTuple):
    """The median of pairwise ratios and the interval of `median_interval`."""

    median: float
    low: float
    high: float


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Ours divided by theirs, pair by pair; None where a pair has no figure above 0."""
    if not theirs or min(*ours, *theirs) <= 0:
        return None
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Ratio(median(ratios), *median_interval(ratios))


def has_interval(count: int) -> bool:
    """Whether so many values tell an interval of `LEVEL`: six do."""
    return _misses(count, 0) <= 1 - LEVEL


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """From the k-th least to the k-th most, with the largest k for which that holds the median of what the
    values are drawn from with a probability of `LEVEL` at least, however they are distributed (Thompson,
    1936). The least and the most where even these do not.
    """
    ordered = sorted(values)
    inner = max(
        (k for k in range((len(ordered) + 1) // 2) if _misses(len(ordered), k) <= 1 - LEVEL), default=0
    )
    return ordered[inner], ordered[-1 - inner]


def _misses(count: int, left_out: int) -> float:
    """How likely it is that at most `left_out` of `count` values lie above the median, or so few below it."""
    return 2 * sum(comb(count, number) for number in range(left_out + 1)) / (1 << count)
