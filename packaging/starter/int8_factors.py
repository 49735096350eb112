"""Low-rank factors as int8, in the layout that `ebbtide.engine.starter.delta` documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
TOP = 127


def int8_factors(a: Floats, b: Floats) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.float16]]:
    """a [experts, rank, in], b [experts, out, rank] -> int8 a and b, float16 scale [experts, out].

    Only the product b a matters, so each rank's size is moved from a to b first; then a's rows fill
    the int8 range and one scale per row of b is enough.
    """
    size = np.maximum(np.abs(a).max(axis=2), 1e-12)  # [experts, rank]
    a_codes = np.rint(a / size[:, :, None] * TOP)
    sized = b * size[:, None, :]
    scale = np.abs(sized).max(axis=2).astype(np.float16)
    steps = np.maximum(scale.astype(np.float32), 1e-12)[:, :, None] / TOP
    b_codes = np.where(scale[:, :, None] > 0, np.rint(sized / steps), 0)
    return a_codes.astype(np.int8), np.clip(b_codes, -TOP, TOP).astype(np.int8), scale
