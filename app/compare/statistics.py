"""Medians of pairwise ratios, and how sure they are."""

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

LEVEL = 0.95
RESAMPLES = 2000

Value = TypeVar("Value")


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
    """Whether so many values tell an interval of `LEVEL`: six do. A median lies outside all of n values with
    a probability of 2^(1 - n), however they are distributed.
    """
    return 2.0 ** (1 - count) <= 1 - LEVEL


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The bootstrap interval of the median; the least and the most where the values are too few for one."""
    return bootstrap(values, median, seed) or (min(values), max(values))


def bootstrap(
    values: Sequence[Value], figure: Callable[[Sequence[Value]], float], seed: int = 0
) -> tuple[float, float] | None:
    """Percentiles of `figure` over values drawn again (Efron and Tibshirani, 1993); None where they are too
    few. The same values give the same interval.
    """
    if not has_interval(len(values)):
        return None
    chooser = random.Random(seed)
    figures = sorted(figure(chooser.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - LEVEL) / 2)
    return figures[tail], figures[-1 - tail]
