"""Scales <-> the bytes of a strip's meta data (kernels/layout.py), for whole strips of 16 rows."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.weights.codes import U8, Scales
from ebbtide.kernels.layout import STRIP_ROWS, MatrixFormat, ScaleKind

_K6_GROUP_BYTES = 24
_NIBBLE = np.uint8(15)
_FOUR = np.uint8(4)


def _by_strip(values: NDArray[np.generic]) -> U8:
    """[R, G] of 1 or 2 byte items -> u8[R/16, G, 16 * item bytes]: the rows of a group together."""
    rows, groups = values.shape
    strips = np.ascontiguousarray(values.reshape(rows // STRIP_ROWS, STRIP_ROWS, groups).transpose(0, 2, 1))
    return strips.view(np.uint8).reshape(rows // STRIP_ROWS, groups, -1)


def _by_row(strips: U8, dtype: type[np.generic]) -> NDArray[np.generic]:
    """The inverse of `_by_strip`: u8[S, G, 16 * item bytes] -> [S * 16, G]."""
    values = np.ascontiguousarray(strips).view(dtype)
    return np.ascontiguousarray(values.transpose(0, 2, 1)).reshape(-1, strips.shape[1])


def _pack_six_bits(values: U8) -> U8:
    """u8[S, G, 16] of 6 bits -> u8[S, G, 12]: 8 bytes of low nibbles, then 4 of top bits.

    Row r has its low nibble at bit 4*(r%2) of byte r//2, its top bits at bit 2*(r%4) of byte 8 + r//4.
    """
    low, top = np.bitwise_and(values, _NIBBLE), np.right_shift(values, _FOUR)
    nibbles = low[:, :, 0::2] | (low[:, :, 1::2] << _FOUR)
    tops = top[:, :, 0::4]
    for row in (1, 2, 3):
        tops = tops | (top[:, :, row::4] << np.uint8(2 * row))
    return np.concatenate([nibbles, tops], axis=2)


def _unpack_six_bits(packed: U8) -> U8:
    """The inverse of `_pack_six_bits`."""
    row = np.arange(STRIP_ROWS)
    low = (packed[:, :, row // 2] >> (4 * (row % 2)).astype(np.uint8)) & _NIBBLE
    top = (packed[:, :, 8 + row // 4] >> (2 * (row % 4)).astype(np.uint8)) & np.uint8(3)
    return low | (top << _FOUR)


def pack_meta(format: MatrixFormat, scales: Scales) -> U8:
    """Meta bytes u8[R/16, strip_meta_bytes] of the scales of R rows (a multiple of 16)."""
    if format.kind is ScaleKind.E8:
        exponents = _by_strip(scales.sc)
        return exponents.reshape(exponents.shape[0], -1)
    d = _by_strip(scales.d)
    strips = d.shape[0]
    if format.kind is ScaleKind.HALF:
        return d.reshape(strips, -1)
    m = _by_strip(scales.m) if format.kind not in (ScaleKind.K8, ScaleKind.S6) else d[:, :, :0]
    if format.kind is ScaleKind.HALF_MIN:
        return np.concatenate([d, m], axis=2).reshape(strips, -1)
    subs = _by_strip(scales.sc)
    if format.kind is ScaleKind.K6:
        subs = np.concatenate([_pack_six_bits(subs), _pack_six_bits(_by_strip(scales.mn))], axis=2)
    if format.kind is ScaleKind.S6:
        subs = _pack_six_bits(subs)
    subs = subs.reshape(strips, d.shape[1], -1)
    return np.concatenate([d, m, subs], axis=2).reshape(strips, -1)


def unpack_meta(format: MatrixFormat, meta: U8, cols: int) -> Scales:
    """Scales of the R rows whose meta bytes are u8[R/16, strip_meta_bytes]."""
    strips = meta.shape[0]
    if format.kind in (ScaleKind.HALF, ScaleKind.HALF_MIN):
        parts = meta.reshape(strips, cols // 32, -1)
        d, m = parts[:, :, :32], parts[:, :, 32:]
        return Scales(_half(d), _half(m)) if format.kind is ScaleKind.HALF_MIN else Scales(_half(d))
    if format.kind is ScaleKind.E8:
        return Scales(sc=_bytes(meta.reshape(strips, cols // 32, 16)))
    supers = meta.reshape(strips, cols // 256, -1)
    if format.kind is ScaleKind.K8:
        return Scales(_half(supers[:, :, :32]), sc=_bytes(supers[:, :, 32:].reshape(strips, cols // 16, 16)))
    if format.kind is ScaleKind.S6:
        signed = _unpack_six_bits(supers[:, :, 32:].reshape(strips, cols // 32, 12))
        return Scales(_half(supers[:, :, :32]), sc=_bytes(signed))
    groups = supers[:, :, 64:].reshape(strips, cols // 32, _K6_GROUP_BYTES)
    sub_scales, minimums = _unpack_six_bits(groups[:, :, :12]), _unpack_six_bits(groups[:, :, 12:])
    return Scales(_half(supers[:, :, :32]), _half(supers[:, :, 32:64]), _bytes(sub_scales), _bytes(minimums))


def _half(strips: U8) -> NDArray[np.float16]:
    return _by_row(strips, np.float16).astype(np.float16, copy=False)


def _bytes(strips: U8) -> U8:
    return _by_row(strips, np.uint8).astype(np.uint8, copy=False)
