"""Medians of pairwise ratios, and how sure they are."""

import random
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

RESAMPLES = 2000
LEVEL = 0.95
STEADY = 1.5
"""Most to least, of runs on a machine that does nothing else."""


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


def unsteadiness(series: Iterable[Sequence[float]]) -> float:
    """How many times the most of a series is its least; the worst of all series. 1 where there is nothing."""
    return max((max(values) / min(values) for values in series if values and min(values) > 0), default=1.0)


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The interval of the median of `values`; the same values give the same interval."""
    chooser = random.Random(seed)
    medians = sorted(median(chooser.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - LEVEL) / 2)
    return medians[tail], medians[-1 - tail]
