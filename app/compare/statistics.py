"""Medians of pairwise ratios, and how sure they are."""

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000
LEVEL = 0.95


class Ratio(NamedTuple):
    """The median of pairwise ratios and its bootstrap interval (percentiles; Efron and Tibshirani, 1993)."""

    median: float
    low: float
    high: float


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Ours divided by theirs, pair by pair; None where a pair has no figure above 0."""
    if not theirs or min(*ours, *theirs) <= 0:
        return None
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Ratio(median(ratios), *bootstrap_interval(ratios))


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The interval of the median of `values`; the same values give the same interval."""
    chooser = random.Random(seed)
    medians = sorted(median(chooser.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - LEVEL) / 2)
    return medians[tail], medians[-1 - tail]
