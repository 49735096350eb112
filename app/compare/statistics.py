"""Medians of pairwise ratios, and how sure they are."""

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

LEVEL = 0.95
RESAMPLES = 2000


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
    """The bootstrap interval of the median (percentiles; Efron and Tibshirani, 1993); the least and the most
    where the values are too few for one. The same values give the same interval.
    """
    if not has_interval(len(values)):
        return min(values), max(values)
    chooser = random.Random(seed)
    medians = sorted(median(chooser.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - LEVEL) / 2)
    return medians[tail], medians[-1 - tail]
