"""How experts are used over a run: what carries over, what a cache would miss."""

import numpy as np
from numpy.typing import NDArray

Choices = NDArray[np.integer]
"""The experts that a layer chose, [tokens, top_k], in order of time."""


def used(choices: Choices, experts: int) -> NDArray[np.bool_]:
    """[tokens, experts]"""
    table = np.zeros((len(choices), experts), bool)
    np.put_along_axis(table, choices, True, axis=1)
    return table


def carry_over(choices: Choices, experts: int) -> float:
    """Share of a token's experts that the token before it had chosen too; NaN for fewer than two tokens."""
    table = used(choices, experts)
    both = (table[1:] & table[:-1]).sum()
    return float(both / table[1:].sum()) if len(table) > 1 else float("nan")


def share_for(choices: Choices, experts: int, mass: float) -> float:
    """Smallest share of the experts that together make `mass` of all choices."""
    counts = np.sort(used(choices, experts).sum(axis=0))[::-1]
    return float((np.searchsorted(np.cumsum(counts), mass * counts.sum()) + 1) / experts)


def hot_share(before: Choices, after: Choices, experts: int, share: float) -> float:
    """What part of the choices `after` falls on the experts most used `before`, this share of all."""
    hot = np.argsort(-used(before, experts).sum(axis=0), kind="stable")[: round(share * experts)]
    return float(np.isin(after, hot).mean())


def lru_miss_rate(choices: Choices, experts: int, capacity: int) -> float:
    """Misses of a cache of `capacity` experts that drops the longest unused, empty at first.

    A token is one event: all it chose is looked up at once, and none of it drops another of it. Raises
    ValueError when a token's experts do not fit.
    """
    if capacity < choices.shape[1]:
        raise ValueError(f"{choices.shape[1]} experts of a token do not fit into {capacity}")
    last_use = np.full(experts, -1)  # of residents; -1: absent
    misses = 0
    for time, wanted in enumerate(choices):
        misses += int((last_use[wanted] < 0).sum())
        last_use[wanted] = time
        while (surplus := int((last_use >= 0).sum()) - capacity) > 0:
            oldest = np.argsort(np.where(last_use < 0, np.iinfo(int).max, last_use), kind="stable")
            last_use[oldest[:surplus]] = -1
    return misses / choices.size
