"""Numbers on a line cut into parts, and each part in two, and so on: 1-D clusters that nest.

What is cut is a histogram: `mass[i]` lies at bin i, whose value is i. A part is a run of bins and stands
for its mean; what it costs is the sum of mass * (value - mean)^2. *Edges* of n parts are i64[n + 1]: part p
is the bins edges[p] .. edges[p + 1] - 1, and may be empty. (Any-Precision LLM, Park et al. 2024: a seed of
few bits by k-means, then every cluster in two for each further bit.)

The least cost is the greatest sum over parts of (sum of mass * value)^2 / (sum of mass), the *gain*. Of
equal gains the first one counts, so a histogram always gives the same edges.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

_ROWS = 128
"""Edges that are looked at together: what they need stays in the second-level cache."""


def nested_edges(mass: F64, planes: int, seed_width: int) -> I64:
    """Edges of 2^planes parts: of the parts of b bits, edges[:: 2^(planes - b)] are the edges.

    Those of `seed_width` bits are the best there are, and so is every later cut of a part in two. Earlier
    parts are what their halves come to. With fewer values than parts, many cuts would be as good and most of
    them bad for the earlier parts: then the seed has fewer bits.
    """
    values = int(np.count_nonzero(mass))
    seed = min(planes, seed_width, max(values.bit_length() - 1, 0))
    edges = best_edges(mass, 1 << seed)
    for _ in range(planes - seed):
        edges = halved(mass, edges)
    return edges


def best_edges(mass: F64, count: int) -> I64:
    """Edges of the `count` parts that cost least together (dynamic programming, exact).

    Takes memory for half a square of the number of bins.
    """
    gains = list(_gains(mass))
    best, choices = np.concatenate([some[:, 0] for some in gains]), []
    for _ in range(count - 1):
        found = [_best_last(best, some) for some in gains]
        best, choice = (np.concatenate(parts) for parts in zip(*found, strict=True))
        choices.append(choice)
    edges = [len(mass)]
    for choice in reversed(choices):
        edges.append(int(choice[edges[-1]]))
    return np.array([0, *edges[::-1]], np.int64)


def _best_last(best: F64, gains: F64) -> tuple[F64, I64]:
    """(gain, start) of the last part up to each of some edges, where `best` is what lies before it."""
    sums = gains + best[: gains.shape[1]]
    choice = sums.argmax(axis=1)
    return sums[np.arange(len(sums)), choice], choice


def halved(mass: F64, edges: I64) -> I64:
    """Edges of twice as many parts: every part cut in two where that costs least.

    Of a part that cannot be cut (one value, or nothing in it) the second half is empty.
    """
    cuts = [_best_cut(mass, int(start), int(end)) for start, end in pairwise(edges)]
    out = np.empty(2 * len(edges) - 1, np.int64)
    out[0::2], out[1::2] = edges, cuts
    return out


def part_means(mass: F64, edges: I64) -> tuple[F64, NDArray[np.bool_]]:
    """(mean f64[parts], is anything in it bool[parts]); the mean of nothing is 0."""
    m0, m1 = _sums(mass)
    weight, moment = np.diff(m0[edges]), np.diff(m1[edges])
    filled = weight > 0
    return np.divide(moment, weight, out=np.zeros_like(moment), where=filled), filled


def _sums(mass: F64) -> tuple[F64, F64]:
    """Sums of mass and of mass * value over the bins before each edge. Exact below 2^53."""
    zero = np.zeros(1)
    return (
        np.concatenate([zero, np.cumsum(mass)]),
        np.concatenate([zero, np.cumsum(mass * np.arange(len(mass)))]),
    )


def _gain(weight: F64, moment: F64) -> F64:
    return np.divide(np.square(moment), weight, out=np.zeros_like(moment), where=weight > 0)


def _gains(mass: F64) -> Iterator[F64]:
    """Of the part from edge i to edge j, a few rows j at a time, i = 0 .. the last of these; minus infinity
    where j < i.
    """
    # Values from the mean on, not from 0: what is compared are small differences of these.
    m0, m1 = _sums(mass)
    m1 -= m0 * (m1[-1] / m0[-1] if m0[-1] else 0.0)
    for start in range(0, len(m0), _ROWS):
        end = min(start + _ROWS, len(m0))
        weight, moment = (m[start:end, None] - m[None, :end] for m in (m0, m1))
        gains = _gain(weight, moment)
        gains[:, start:][np.triu_indices(end - start, 1)] = -np.inf
        yield gains


def _best_cut(mass: F64, start: int, end: int) -> int:
    """The edge in start + 1 .. end where a part is cut; `end` where nothing is gained."""
    inside = mass[start:end]
    if np.count_nonzero(inside) < 2:
        return end
    m0, m1 = np.cumsum(inside), np.cumsum(inside * np.arange(len(inside)))
    m1 -= m0 * (m1[-1] / m0[-1])
    gain = _gain(m0, m1) + _gain(m0[-1] - m0, m1[-1] - m1)
    return start + 1 + int(gain[:-1].argmax())
