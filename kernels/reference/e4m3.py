"""FP8 E4M3 as the specification: one power-of-two scale for a vector, codes rounded to nearest even.

A code has a sign, four bits of exponent (bias 7) and three of mantissa; the largest value is 448, there is no
infinity. The scale is the smallest power of two (from 2^-126 on) by which the largest magnitude becomes at
most 448.
"""

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.ops import F32, U8
from ebbtide.kernels.sealed import NOT_FINITE

LARGEST = 448.0
_SUBNORMAL_STEP = np.float32(1 << 14)
"""The unit in the last place of 2^14 is 2^-9, the smallest code's value: adding it rounds to whole codes."""


def scale_byte(x: F32) -> U8:
    """The byte of vectors x f32[..., n]: u8[...]. `NOT_FINITE` where one of the values is no number."""
    magnitudes = np.abs(x)
    bits = np.where(np.isfinite(x), magnitudes, np.float32(0)).max(axis=-1).astype(np.float32).view(np.uint32)
    exponent = (bits >> 23).astype(np.int32) - 8 + ((bits & 0x7FFFFF) > 0x600000)
    byte = np.where(np.isfinite(x).all(axis=-1), np.maximum(exponent, 1), NOT_FINITE)
    return byte.astype(np.uint8)


def scale_of(byte: U8) -> F32:
    """2^(byte - 127), NaN for `NOT_FINITE`."""
    bits = byte.astype(np.uint32) << np.uint32(23)
    return np.where(byte == NOT_FINITE, np.float32(np.nan), bits.view(np.float32))


def encode(x: F32) -> tuple[U8, U8]:
    """(codes u8[..., n], scales u8[...]) of vectors x f32[..., n]; one that is not finite has codes 0."""
    byte = scale_byte(x)
    inverse = ((254 - byte.astype(np.int32)).clip(0) << 23).astype(np.uint32).view(np.float32)
    finite = np.where(byte[..., None] == NOT_FINITE, np.float32(0), x).astype(np.float32)
    return code_of(finite * inverse[..., None]), byte


def code_of(x: F32) -> U8:
    """The code nearest to each value of at most 448, ties to even."""
    bits = x.view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    normal = ((size + np.uint32(0x7FFFF) + ((size >> 20) & np.uint32(1))) >> 20) - np.uint32(120 << 3)
    shifted = (size.view(np.float32) + _SUBNORMAL_STEP).view(np.uint32)
    small = shifted - _SUBNORMAL_STEP.view(np.uint32)
    code = np.where(size < np.float32(2.0**-6).view(np.uint32), small, normal)
    codes: U8 = (code | (bits >> 24) & np.uint32(0x80)).astype(np.uint8)
    return codes


def code_values() -> F32:
    """The value of each of the 256 codes (the two that stand for NaN are never written: as 480)."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(code & 0x80, -value, value).astype(np.float32)


def decode(codes: U8, byte: U8) -> F32:
    """f32[..., n] of codes u8[..., n] and their scales u8[...]."""
    values: NDArray[np.float32] = code_values()[codes] * scale_of(byte)[..., None]
    return values
