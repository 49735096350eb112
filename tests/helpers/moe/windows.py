"""Queries and keys whose rotation alone makes a head look at the last few tokens.

A query and a key that are the same fixed vector give the score sum_i a_i cos(angle_i * distance) after
rotary embedding (Su et al., 2021): largest at distance 0. With the energy on a band of angles the softmax is
close to exp(-(distance / window)^2).
"""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
GAIN = 16.0
"""Score at distance 0. Far tokens, whose cosines average to nothing, keep about exp(-GAIN) each."""
BAND = 8.0
"""Largest angle of a band by its smallest: enough pairs that their cosines do not meet again."""


def band(window: float, head_dim: int, rope_base: float) -> NDArray[np.intp]:
    """The rotary pairs of a head that looks `window` tokens back."""
    angles = rope_base ** (-np.arange(head_dim // 2) * 2 / head_dim)
    # Log-spaced angles up to `top` have a mean square of top^2 (1 - BAND^-2) / (2 ln BAND), which has to be
    # 2 / (GAIN window^2), from the first two terms of the cosine.
    mean_square = (1 - BAND**-2) / (2 * np.log(BAND))
    top = np.sqrt(2 / (GAIN * mean_square)) / window
    inside = np.flatnonzero((angles <= top) & (angles >= top / BAND))
    return inside if inside.size else np.array([np.abs(np.log(angles / top)).argmin()])


def head_vectors(windows: list[float], head_dim: int, rope_base: float) -> tuple[F32, F32, float]:
    """(queries f32[len(windows), head_dim], the key f32[head_dim], scale) for heads of these windows.

    All vectors have mean square 1; query and key both times `scale` give scores of about `GAIN`, after the
    attention's own 1 / sqrt(head_dim). The pair i is elements i and i + head_dim / 2 (NEOX order).
    """
    bands = [band(window, head_dim, rope_base) for window in windows]
    queries = np.zeros((len(windows), head_dim), np.float32)
    for query, pairs in zip(queries, bands, strict=True):
        query[pairs] = np.sqrt(head_dim / len(pairs))
    key = np.zeros(head_dim, np.float32)
    used = np.unique(np.concatenate(bands))
    key[used] = np.sqrt(head_dim / len(used))
    scores = queries @ key / np.sqrt(head_dim)
    return queries, key, float(np.sqrt(GAIN / scores.mean()))


def tokens_seen(window: float) -> float:
    """Number of equally weighed tokens whose mean varies as much as this window's: (sum w)^2 / sum w^2."""
    total = window * np.sqrt(np.pi) / 2 + 0.5
    squares = window * np.sqrt(np.pi / 2) / 2 + 0.5
    return float(total**2 / squares)
