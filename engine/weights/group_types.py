"""Decoders of the GGUF types with one scale per 32 weights: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.weights.codes import F16, U8, Codes, Scales
from ebbtide.kernels.layout import FORMATS

_LOW, _TOP = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x8080808080808080)
"""The low nibble, and the top bit, of each of eight bytes."""


def _field(blocks: U8, at: int, type_name: str) -> NDArray[Any]:
    """The value at byte `at` of every block; blocks u8[rows, blocks, bytes], contiguous -> [rows, blocks].

    A view without alignment. numpy copies it many times faster than slices of a few bytes.
    """
    return np.ndarray(blocks.shape[:2], type_name, blocks, at, blocks.strides[:2])


def f16_at(blocks: U8, at: int) -> F16:
    """The f16 at byte `at` of every block; `blocks` u8[rows, blocks, bytes] -> f16[rows, blocks]."""
    return np.ascontiguousarray(_field(blocks, at, "<f2"))


def _nibbles(blocks: U8, at: int) -> U8:
    """Codes u8[rows, groups, 32] of 16 bytes: low nibbles are weights 0-15, high nibbles 16-31."""
    out = np.empty((*blocks.shape[:2], 4), "<u8")
    for half in (0, 1):
        packed = _field(blocks, at + 8 * half, "<u8")
        np.bitwise_and(packed, _LOW, out=out[:, :, half])
        np.bitwise_and(packed >> np.uint64(4), _LOW, out=out[:, :, 2 + half])
    return out.view(np.uint8)


def _with_fifth_bit(codes: U8, blocks: U8, at: int) -> U8:
    """Add bit 4 of each code from the 32 bits at byte `at` (bit i = weight i)."""
    packed = np.ascontiguousarray(_field(blocks, at, "<u4")).view(np.uint8)
    codes |= np.unpackbits(packed, bitorder="little").reshape(codes.shape) << np.uint8(4)
    return codes


def decode_q4_0(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, 16 bytes of nibbles."""
    return _plain_nibbles("Q4_0", raw, rows, cols)


def decode_iq4_nl(raw: U8, rows: int, cols: int) -> Codes:
    """As Q4_0; the codes are places in a table."""
    return _plain_nibbles("IQ4_NL", raw, rows, cols)


def decode_mxfp4(raw: U8, rows: int, cols: int) -> Codes:
    """An exponent, 16 bytes of nibbles: sign and magnitude, which become codes that rise with the value."""
    blocks = raw.reshape(rows, cols // 32, 17)
    floats = _nibbles(blocks, 1).reshape(rows, cols)
    codes = np.where(floats < 8, floats + np.uint8(8), np.uint8(15) - floats)
    return Codes(FORMATS["MXFP4"], codes, Scales(sc=np.ascontiguousarray(blocks[:, :, 0])))


def _plain_nibbles(name: str, raw: U8, rows: int, cols: int) -> Codes:
    blocks = raw.reshape(rows, cols // 32, 18)
    return Codes(FORMATS[name], _nibbles(blocks, 2).reshape(rows, cols), Scales(f16_at(blocks, 0)))


def decode_q4_1(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, m f16, 16 bytes of nibbles."""
    blocks = raw.reshape(rows, cols // 32, 20)
    scales = Scales(f16_at(blocks, 0), f16_at(blocks, 2))
    return Codes(FORMATS["Q4_1"], _nibbles(blocks, 4).reshape(rows, cols), scales)


def decode_q5_0(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, 32 high bits, 16 bytes of nibbles."""
    blocks = raw.reshape(rows, cols // 32, 22)
    codes = _with_fifth_bit(_nibbles(blocks, 6), blocks, 2)
    return Codes(FORMATS["Q5_0"], codes.reshape(rows, cols), Scales(f16_at(blocks, 0)))


def decode_q5_1(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, m f16, 32 high bits, 16 bytes of nibbles."""
    blocks = raw.reshape(rows, cols // 32, 24)
    codes = _with_fifth_bit(_nibbles(blocks, 8), blocks, 4)
    scales = Scales(f16_at(blocks, 0), f16_at(blocks, 2))
    return Codes(FORMATS["Q5_1"], codes.reshape(rows, cols), scales)


def decode_q8_0(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, 32 signed bytes; the code is the byte + 128, which is the byte with its top bit flipped."""
    blocks = raw.reshape(rows, cols // 32, 34)
    codes = np.empty((*blocks.shape[:2], 4), "<u8")
    for eight in range(4):
        np.bitwise_xor(_field(blocks, 2 + 8 * eight, "<u8"), _TOP, out=codes[:, :, eight])
    return Codes(FORMATS["Q8_0"], codes.view(np.uint8).reshape(rows, cols), Scales(f16_at(blocks, 0)))
