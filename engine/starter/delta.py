"""The shipped router and expert deltas.

A delta file is a plain `.npz`. For layer i and each of the three projections p (gate, up, down):
    i.router   float32 [experts, width]
    i.p.a      int8    [experts, rank, in]
    i.p.b      int8    [experts, out, rank]
    i.p.scale  float16 [experts, out]
and expert e's weights are base + scale[e] / 127^2 (b[e] @ a[e]), one scale a row: the row's largest
change by one rank. The integer product stays below 2^24, so float32 holds it exactly in any order of
summation: no machine can differ.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import ModelError

PROJECTIONS = ("gate", "up", "down")
TOP = 127  # largest code
Floats = NDArray[np.float32]


class Delta:
    """Routers and low-rank changes of all layers, read from a file layer by layer."""

    def __init__(self, path: Path) -> None:
        try:
            self._arrays = np.load(path, allow_pickle=False)
            self.experts = int(self._arrays["0.router"].shape[0])
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ModelError(
                f"the starter's delta file {path} cannot be read: {error}", hint="install ebbtide again."
            ) from error

    def router(self, layer: int) -> Floats:
        """[experts, width]."""
        return np.asarray(self._arrays[f"{layer}.router"], np.float32)

    def factors(self, layer: int, projection: str) -> Factors:
        return Factors(*(self._arrays[f"{layer}.{projection}.{part}"] for part in ("a", "b", "scale")))

    def close(self) -> None:
        self._arrays.close()


class Factors:
    """One projection's deltas of all experts of a layer."""

    def __init__(self, a: NDArray[Any], b: NDArray[Any], scale: NDArray[Any]) -> None:
        self._a, self._b = a.astype(np.float32), b.astype(np.float32)
        self._scale = scale.astype(np.float32) / np.float32(TOP * TOP)

    def applied(self, expert: int, base: Floats) -> Floats:
        """Weights [out, in] of one expert."""
        change: Floats = self._b[expert] @ self._a[expert]
        change *= self._scale[expert][:, None]
        change += base
        return change
