"""Experts' matrices: quantised rows from a pool, every matrix another choice of them in another order.

Quantising a row costs far more than copying it. No two experts are alike, and a model of 17 GB needs the
quantiser for a few thousand rows.
"""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from tests.helpers.moe.quantiser import Quantiser
from tests.helpers.moe.residual import SCORES, Residual
from tests.helpers.moe.shapes import MoeShape

U8 = NDArray[np.uint8]
POOL_ROWS = 4096
SILU_PRODUCT = 0.596
"""Root mean square of silu(x) y, x and y normal."""
SHARED_GATE = 0.54
"""Root mean square of the sigmoid of a normal number."""


class Experts:
    """Makes the matrices of one file's experts in one GGUF type."""

    def __init__(self, shape: MoeShape, quantiser: Quantiser, seed: int) -> None:
        self._shape, self._quantiser, self._seed = shape, quantiser, seed
        self._pools: dict[tuple[str, int, int, float], U8] = {}
        self._lock = Lock()
        self._gates = gates_norm(shape)

    def matrix(self, rng: np.random.Generator, name: str, kind: str, rows: int, cols: int) -> U8:
        """Raw blocks u8[rows, row bytes] of a matrix of the tensor `name`."""
        pool = self._pool(kind, cols, max(rows, POOL_ROWS), self.std(name, cols))
        chosen = pool[rng.permutation(len(pool))[:rows]]
        return np.roll(chosen, rng.integers(pool.shape[1]), axis=1).reshape(rows, -1)

    def std(self, name: str, cols: int) -> float:
        """Standard deviation of the weights: gate and up keep the size of a normed row, down makes all chosen
        experts together add `Residual.expert` (and half of it each, where there is a shared expert).
        """
        if "ffn_down" not in name:
            return float(cols**-0.5)
        parts = 2 if self._shape.family == "qwen2moe" else 1
        gates = SHARED_GATE if "shexp" in name else self._gates
        wanted = np.sqrt(Residual(self._shape).expert / parts)
        return float(wanted / (SILU_PRODUCT * gates * np.sqrt(cols)))

    def _pool(self, kind: str, cols: int, rows: int, std: float) -> U8:
        key = kind, cols, rows, std
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._make_pool(*key)
            return self._pools[key]

    def _make_pool(self, kind: str, cols: int, rows: int, std: float) -> U8:
        """u8[rows, blocks, block bytes]"""
        rng = np.random.Generator(np.random.SFC64([self._seed, rows, cols]))
        values = rng.standard_normal((rows, cols), np.float32)
        values *= np.float32(std)
        return self._quantiser.quantise(kind, values).reshape(rows, -1, self._quantiser.block_bytes(kind))


def gates_norm(shape: MoeShape) -> float:
    """Root of the mean sum of squares of the chosen experts' gates, for normal scores."""
    sizes = shape.sizes
    scores = np.random.default_rng(0).standard_normal((4096, sizes.experts)) * SCORES
    gates = np.exp(scores)
    gates /= gates.sum(axis=1, keepdims=True)
    top = np.sort(gates, axis=1)[:, -sizes.top_k :]
    if shape.normalises_gates:
        top /= top.sum(axis=1, keepdims=True)
    return float(np.sqrt((top**2).sum(axis=1).mean()))
