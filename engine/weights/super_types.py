"""Decoders of the GGUF types with super-blocks of 256 weights: Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS."""

import numpy as np

from ebbtide.engine.weights.codes import U8, Codes, Scales
from ebbtide.engine.weights.group_types import f16_at
from ebbtide.kernels.layout import FORMATS


def _six_bit_scales(packed: U8) -> tuple[U8, U8]:
    """(scales, minimums) u8[rows, supers * 8] from the 12 bytes of Q4_K and Q5_K.

    Bytes 0-3: 6 bits of scales 0-3, 4-7: of minimums 0-3; bytes 8-11: low nibbles of scales 4-7 and, above
    them, of minimums 4-7, whose top two bits are the top two bits of bytes 0-3 and 4-7.
    """
    first, second, third = packed[:, :, 0:4], packed[:, :, 4:8], packed[:, :, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 2) & 48)], axis=2)
    minimums = np.concatenate([second & 63, (third >> 4) | ((second >> 2) & 48)], axis=2)
    rows = packed.shape[0]
    return scales.reshape(rows, -1), minimums.reshape(rows, -1)


def _low_nibbles(packed: U8) -> U8:
    """u8[rows, supers, 128] -> u8[rows, supers, 4, 2, 32]: 32 bytes hold 32 low, then 32 high nibbles."""
    chunks = packed.reshape(*packed.shape[:2], 4, 32)
    return np.stack([chunks & 15, chunks >> 4], axis=3)


def _scales_of(blocks: U8) -> Scales:
    scales, minimums = _six_bit_scales(blocks[:, :, 4:16])
    return Scales(f16_at(blocks, 0), f16_at(blocks, 2), scales, minimums)


def _signed_six_bit_scales(packed: U8) -> U8:
    """The bits of i8[rows, supers * 16] from the 12 bytes of Q3_K, which hold 32 more.

    Byte j of the first eight: the low nibbles of sub-scales j and, above it, j + 8. Byte j of the last four:
    the top two bits of sub-scales j, j + 4, j + 8 and j + 12.
    """
    low = (packed[:, :, None, :8] >> np.array([0, 4], np.uint8)[:, None]) & np.uint8(15)
    top = (packed[:, :, None, 8:] >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & np.uint8(3)
    rows = packed.shape[0]
    return (low.reshape(rows, -1) | (top.reshape(rows, -1) << np.uint8(4))) - np.uint8(32)


def decode_q3_k(raw: U8, rows: int, cols: int) -> Codes:
    """32 bytes of high bits, 64 bytes of 2 low bits (in two halves of 128 weights), 12 bytes of sub-scales,
    d f16.

    Bit g of high-bit byte i belongs to weight i of group g. Where it is not set, ggml takes 4 off the low
    bits: the code is then those bits alone, and 4 stands for zero.
    """
    blocks = raw.reshape(rows, cols // 256, 110)
    low = blocks[:, :, 32:96].reshape(rows, -1, 2, 1, 32)
    shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = ((low >> shift) & np.uint8(3)).reshape(rows, -1, 8, 32)
    bit = np.arange(8, dtype=np.uint8)[:, None]
    codes |= ((blocks[:, :, None, :32] >> bit) & np.uint8(1)) << np.uint8(2)
    scales = Scales(f16_at(blocks, 108), sc=_signed_six_bit_scales(blocks[:, :, 96:108]))
    return Codes(FORMATS["Q3_K"], codes.reshape(rows, cols), scales)


def decode_q4_k(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, dmin f16, 12 bytes of sub-scales, 128 bytes of nibbles."""
    blocks = raw.reshape(rows, cols // 256, 144)
    codes = _low_nibbles(blocks[:, :, 16:])
    return Codes(FORMATS["Q4_K"], codes.reshape(rows, cols), _scales_of(blocks))


def decode_q5_k(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, dmin f16, 12 bytes of sub-scales, 32 bytes of fifth bits, 128 bytes of nibbles.

    Bit g of fifth-bit byte i belongs to weight i of group g.
    """
    blocks = raw.reshape(rows, cols // 256, 176)
    codes = _low_nibbles(blocks[:, :, 48:]).reshape(rows, -1, 8, 32)
    bit = np.arange(8, dtype=np.uint8)[:, None]
    codes |= ((blocks[:, :, None, 16:48] >> bit) & 1) << 4
    return Codes(FORMATS["Q5_K"], codes.reshape(rows, cols), _scales_of(blocks))


def decode_q6_k(raw: U8, rows: int, cols: int) -> Codes:
    """128 bytes of low nibbles, 64 bytes of 2 high bits (each in two halves of 128 weights), 16 signed
    sub-scales, d f16."""
    blocks = raw.reshape(rows, cols // 256, 210)
    low = blocks[:, :, :128].reshape(rows, -1, 2, 1, 64)
    shift = np.array([0, 4], np.uint8)[:, None]
    codes = ((low >> shift) & np.uint8(15)).reshape(rows, -1, 2, 4, 32)
    high = blocks[:, :, 128:192].reshape(rows, -1, 2, 1, 32)
    shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes |= ((high >> shift) & np.uint8(3)) << np.uint8(4)
    sub_scales = np.ascontiguousarray(blocks[:, :, 192:208]).reshape(rows, -1)
    return Codes(FORMATS["Q6_K"], codes.reshape(rows, cols), Scales(f16_at(blocks, 208), sc=sub_scales))


def decode_iq4_xs(raw: U8, rows: int, cols: int) -> Codes:
    """d f16, 2 bytes of the top two bits and 4 bytes of the low nibbles of 8 sub-scales, 128 bytes of
    nibbles (16 for each group of 32), which are places in the table of IQ4_NL.
    """
    blocks = raw.reshape(rows, cols // 256, 136)
    top = (blocks[:, :, 2:4, None] >> np.array([0, 2, 4, 6], np.uint8)) & np.uint8(3)
    low = (blocks[:, :, 4:8, None] >> np.array([0, 4], np.uint8)) & np.uint8(15)
    sub_scales = low.reshape(rows, -1) | (top.reshape(rows, -1) << np.uint8(4))
    nibbles = blocks[:, :, 8:].reshape(rows, -1, 8, 1, 16)
    codes = (nibbles >> np.array([0, 4], np.uint8)[:, None]) & np.uint8(15)
    return Codes(FORMATS["IQ4_XS"], codes.reshape(rows, cols), Scales(f16_at(blocks, 0), sc=sub_scales))
