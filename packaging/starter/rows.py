"""Training rows drawn from the domains in fixed shares, without repetition until a domain is used up."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHARES = {"code": 0.40, "documentation": 0.32, "chat": 0.28}
Ids = NDArray[np.int32]


class TrainingRow(NamedTuple):
    """tokens [513] and scored [512]: whether each next token counts."""

    domain: str
    tokens: Ids
    scored: Ids


class RowSource:
    """Row k of the run depends only on the seed and k, so that a resumed run goes on where it stopped."""

    def __init__(self, corpus: Path, seed: int) -> None:
        with np.load(corpus) as arrays:
            self._arrays = {name: arrays[name] for name in arrays.files}
        self._seed = seed
        self._domains = list(SHARES)

    def step_rows(self, step: int, count: int) -> list[TrainingRow]:
        """`count` rows of step `step`; the domains' shares hold over any longer stretch."""
        return [self._row(step * count + index) for index in range(count)]

    def _row(self, index: int) -> TrainingRow:
        # A low-discrepancy sequence spreads the domains evenly over time.
        points = (np.arange(index + 1) * 0.6180339887498949 + 0.5) % 1.0
        drawn = np.searchsorted(np.cumsum(list(SHARES.values())), points, side="right")
        domain = self._domains[min(int(drawn[-1]), len(SHARES) - 1)]
        nth = int((drawn[:-1] == drawn[-1]).sum())
        rows = self._arrays[f"{domain}.train.rows"]
        rng = np.random.default_rng([self._seed, zlib.crc32(domain.encode()), nth // len(rows)])
        chosen = rng.permutation(len(rows))[nth % len(rows)]
        return TrainingRow(domain, rows[chosen], self._arrays[f"{domain}.train.scored"][chosen])
