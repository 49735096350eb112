"""From logits to the next token: penalty, top-k, top-p, min-p, temperature, one counter-based draw."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Sampling

PENALTY_WINDOW = 64
"""Tokens that the repetition penalty looks back on (the window that llama.cpp uses by default)."""


def check(sampling: Sampling) -> None:
    """Raise UsageError for a setting outside its range."""
    ranges = (
        ("temperature", sampling.temperature, 0.0, 100.0),
        ("top-k", sampling.top_k, 0, 1 << 31),
        ("top-p", sampling.top_p, 0.0, 1.0),
        ("min-p", sampling.min_p, 0.0, 1.0),
        ("repeat-penalty", sampling.repeat_penalty, 0.01, 100.0),
        ("seed", sampling.seed, 0, (1 << 63) - 1),
    )
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise UsageError(f"--{name} {value} is out of range", hint=f"use a value from {low} to {high}.")


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on (seed, position) only: Philox4x64 with key `seed`, counter
    `position`.

    Keyed by position, so that a draw does not depend on what was drawn before it or beside it.
    """
    generator = np.random.Philox(key=seed, counter=position)
    return float(int(generator.random_raw()) >> 11) * 2.0**-53


def _penalise(logits: NDArray[np.float32], recent: Sequence[int], penalty: float) -> NDArray[np.float32]:
    """Divide positive and multiply negative logits of recent tokens by `penalty` (CTRL, Keskar et al.
    2019).
    """
    if penalty == 1.0 or not recent:
        return logits
    ids = np.unique(np.asarray(recent[-PENALTY_WINDOW:], np.int64))
    logits = logits.copy()
    chosen = logits[ids]
    logits[ids] = np.where(chosen > 0, chosen / np.float32(penalty), chosen * np.float32(penalty))
    return logits


def _candidates(logits: NDArray[np.float32], top_k: int) -> NDArray[np.int64]:
    """Ids of the `top_k` largest logits (0 = all), largest first, the lower id first among equals."""
    if 0 < top_k < logits.size:
        threshold = np.partition(logits, logits.size - top_k)[logits.size - top_k]
        ids = np.flatnonzero(logits >= threshold)
    else:
        ids = np.arange(logits.size)
    return ids[np.lexsort((ids, -logits[ids]))][: top_k or None]


def _softmax(values: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = np.exp(values.astype(np.float64) - float(values.max()))
    return np.asarray(shifted / shifted.sum(), np.float64)


def sample(logits: NDArray[np.float32], sampling: Sampling, *, recent: Sequence[int], position: int) -> int:
    """The next token id. `logits` is f32[vocabulary]; `recent` the ids so far; `position` that of the new
    token.

    Raises ArithmeticError when the logits hold no finite maximum (a broken model or file).
    """
    if not np.isfinite(logits.max()):
        raise ArithmeticError("the model's logits are not finite")
    logits = _penalise(logits, recent, sampling.repeat_penalty)
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    ids = _candidates(logits, sampling.top_k)
    shares = _softmax(logits[ids])
    before = np.cumsum(shares) - shares
    keep = (before < sampling.top_p) & (shares >= sampling.min_p * shares[0])
    keep[0] = True
    ids = ids[keep]
    totals = np.cumsum(_softmax(logits[ids] / np.float32(sampling.temperature)))
    draw = uniform(sampling.seed, position) * totals[-1]
    return int(ids[min(int(np.searchsorted(totals, draw, side="right")), ids.size - 1)])
