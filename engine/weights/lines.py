"""Codes <-> plane lines (kernels/layout.py) in numpy, and the seam through which a faster packer is used."""

from collections.abc import Callable

import numpy as np

from ebbtide.engine.weights.codes import U8
from ebbtide.kernels.layout import LINE_BYTES, ROW_OF_PAIR, STRIP_ROWS

LinePacker = Callable[[U8, int, U8], None]
"""(codes u8[R, K] with R a multiple of 16, planes, out u8[planes, R/16 * K/32 * 64]) -> None; fills `out`."""

_PAIR_OF_ROW = np.argsort(ROW_OF_PAIR)
_HALF = np.dtype((np.void, 16))
"""Sixteen neighbouring columns of one row: what stays together when rows are reordered."""


def pack_lines(codes: U8, planes: int, out: U8) -> None:
    """Fill `out` u8[planes, lines * 64] with the plane lines of codes u8[R, K], R a multiple of 16."""
    rows, cols = codes.shape
    halves = codes.view(_HALF).reshape(rows // STRIP_ROWS, STRIP_ROWS, cols // 16)
    ordered = np.ascontiguousarray(halves[:, ROW_OF_PAIR, :].transpose(0, 2, 1))
    # [.., 8 bits, 2 parities] -> [.., 2 parities, 8 bits]: one byte of a line is eight neighbours here.
    by_byte = np.ascontiguousarray(ordered.view(np.uint8).reshape(-1, 8, 2).transpose(0, 2, 1)).reshape(-1)
    for plane in range(planes):
        bit = np.uint8(1 << (planes - 1 - plane))
        out[plane] = np.packbits(by_byte & bit, bitorder="little")


def unpack_lines(planes: list[U8], rows: int, cols: int) -> U8:
    """Codes u8[rows, cols] of the given planes, most significant first, each u8[rows/16 * cols/32 * 64]."""
    by_byte = np.zeros(rows * cols, np.uint8)
    for plane in planes:
        by_byte <<= 1
        by_byte |= np.unpackbits(plane, bitorder="little")
    ordered = np.ascontiguousarray(by_byte.reshape(-1, 2, 8).transpose(0, 2, 1)).reshape(-1).view(_HALF)
    ordered = ordered.reshape(rows // STRIP_ROWS, cols // 16, STRIP_ROWS)[:, :, _PAIR_OF_ROW]
    return np.ascontiguousarray(ordered.transpose(0, 2, 1)).view(np.uint8).reshape(rows, cols)


def plane_line_bytes(rows: int, cols: int) -> int:
    """Bytes of one plane of `rows` (a multiple of 16) x `cols` weights."""
    return rows // STRIP_ROWS * (cols // 32) * LINE_BYTES
