"""Cosines and sines of rotary position embedding (Su et al. 2021, equation 34)."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.spec import ModelSpec

F32 = NDArray[np.float32]


def rope_tables(spec: ModelSpec, factors: F32 | None, context: int) -> tuple[F32, F32]:
    """cos, sin: f32[context, rope_dim / 2], computed in float64.

    `factors` f32[rope_dim / 2] divide the frequencies one by one (Llama 3's `rope_freqs`); linear scaling
    divides the position by `spec.rope_linear_scale`.
    """
    pairs = spec.rope_dim // 2
    frequency = spec.rope_base ** (-2.0 * np.arange(pairs, dtype=np.float64) / spec.rope_dim)
    if factors is not None:
        frequency = frequency / factors.astype(np.float64)
    angles = np.outer(np.arange(context, dtype=np.float64) / spec.rope_linear_scale, frequency)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rope_table_bytes(spec: ModelSpec, context: int) -> int:
    """Bytes of both tables."""
    return 2 * context * (spec.rope_dim // 2) * 4
