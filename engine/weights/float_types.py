"""Codes made from F32, F16 and BF16 weights: 8 planes, a scale per group of 32, and the error they cost."""

import math

import numpy as np

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.codes import F16, F32, U8, Codes, Scales
from ebbtide.kernels.layout import FORMATS, GROUP_COLS

_LEVELS = 127


def group_scales(weights: F32) -> F16:
    """f16[N, K / 32] of weights f32[N, K]: 127 scales are the largest magnitude of a group, or just above.

    Raises ModelError for weights that are not finite or too large for f16 scales (over 8.3 million).
    """
    rows, cols = weights.shape
    largest = np.abs(weights).reshape(rows, cols // GROUP_COLS, GROUP_COLS).max(axis=2)
    with np.errstate(over="ignore"):
        d = (largest / _LEVELS).astype(np.float16)
    # Rounded up, so that no weight needs more than 127 steps.
    short = d.astype(np.float32) * _LEVELS < largest
    scales: F16 = np.where(short, np.nextafter(d, np.float16(np.inf)), d)
    if not np.isfinite(scales).all():
        raise ModelError(
            "A tensor holds weights that are not finite, or far too large",
            hint="The file is damaged; fetch it again.",
        )
    return scales


def encode_g8(weights: F32) -> Codes:
    """G8 codes of f32[N, K]: the largest magnitude of a group becomes 127 steps, so no weight is off by more
    than half a step.

    Raises ModelError as `group_scales` does.
    """
    rows, cols = weights.shape
    groups = weights.reshape(rows, cols // GROUP_COLS, GROUP_COLS)
    d = group_scales(weights)
    step = d.astype(np.float32)[:, :, None]
    inverse = np.divide(1.0, step, out=np.zeros_like(step), where=step > 0)
    steps = np.rint(groups * inverse)
    error = steps * step - groups
    return Codes(
        FORMATS["G8"],
        (steps + 128.0).astype(np.uint8).reshape(rows, cols),
        Scales(d),
        signal=float(np.square(groups, dtype=np.float64).sum()),
        noise=float(np.square(error, dtype=np.float64).sum()),
    )


def sqnr_db(signal: float, noise: float) -> float:
    """Signal to quantisation noise in dB from sums of squares; infinite when nothing was lost."""
    return math.inf if noise == 0 else 10 * math.log10(signal / noise)


def floats_of(raw: U8, type_name: str) -> F32:
    """f32 values of the bytes of an F32, F16 or BF16 tensor, flat."""
    if type_name == "F32":
        return raw.view(np.float32)
    if type_name == "F16":
        return raw.view(np.float16).astype(np.float32)
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def decode_f32(raw: U8, rows: int, cols: int) -> Codes:
    """G8 codes of f32 weights."""
    return encode_g8(floats_of(raw, "F32").reshape(rows, cols))


def decode_f16(raw: U8, rows: int, cols: int) -> Codes:
    """G8 codes of f16 weights."""
    return encode_g8(floats_of(raw, "F16").reshape(rows, cols))


def decode_bf16(raw: U8, rows: int, cols: int) -> Codes:
    """G8 codes of bf16 weights."""
    return encode_g8(floats_of(raw, "BF16").reshape(rows, cols))
