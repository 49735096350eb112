"""Matrices into and out of the address space of a block (kernels/layout.py)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ebbtide.engine.weights.codes import F32, U8, Codes, to_float
from ebbtide.engine.weights.lines import LinePacker, pack_lines, unpack_lines
from ebbtide.engine.weights.meta import pack_meta, unpack_meta
from ebbtide.kernels.layout import LINE_BYTES, STRIP_ROWS, MatrixView


def write_rows(
    put: Callable[[int, U8], None],
    view: MatrixView,
    first_row: int,
    codes: Codes,
    *,
    packer: LinePacker = pack_lines,
) -> None:
    """Store some rows of a matrix by calls of `put(offset in the block's address space, bytes)`.

    `first_row` is a multiple of 16; only the matrix's last rows may number other than a multiple of 16, and
    are padded with code 0 and scale 0.
    """
    shape = view.shape
    padded = _padded(codes)
    first, strips = first_row // STRIP_ROWS, padded.codes.shape[0] // STRIP_ROWS
    meta_at = view.meta_offset + first * shape.strip_meta_bytes
    meta = pack_meta(shape.format, padded.scales)
    put(meta_at, meta.reshape(-1))
    line_bytes = shape.groups * LINE_BYTES
    lines = np.empty((shape.format.planes, strips * line_bytes), np.uint8)
    packer(padded.codes, shape.format.planes, lines)
    for plane, offset in enumerate(view.plane_offsets):
        put(offset + first * line_bytes, lines[plane])


def _padded(codes: Codes) -> Codes:
    """The same codes with the number of rows raised to a multiple of 16."""
    extra = -codes.codes.shape[0] % STRIP_ROWS
    if not extra:
        return codes
    return replace(codes, codes=np.pad(codes.codes, ((0, extra), (0, 0))), scales=codes.scales.padded(extra))


def read_rows(block: U8, view: MatrixView, first_row: int, rows: int, width: int) -> Codes:
    """Codes of `rows` rows from `first_row` on; planes beyond `width` read as 0.

    `block` needs to hold the meta data and the first `width` planes only.
    """
    shape = view.shape
    first, last = first_row // STRIP_ROWS, -(-(first_row + rows) // STRIP_ROWS)
    meta_at = view.meta_offset + first * shape.strip_meta_bytes
    meta = block[meta_at : meta_at + (last - first) * shape.strip_meta_bytes]
    line_bytes = shape.groups * LINE_BYTES
    span = slice(first * line_bytes, last * line_bytes)
    used = min(width, shape.format.planes)
    planes = [block[offset:][span] for offset in view.plane_offsets[:used]]
    codes = unpack_lines(planes, (last - first) * STRIP_ROWS, shape.cols)
    codes <<= np.uint8(shape.format.planes - used)
    kept = slice(first_row - first * STRIP_ROWS, first_row - first * STRIP_ROWS + rows)
    scales = unpack_meta(shape.format, meta.reshape(last - first, -1), shape.cols)
    return Codes(shape.format, codes[kept], scales.rows(kept))


def dequantise(
    block: U8, view: MatrixView, width: int = 8, *, first_row: int = 0, rows: int | None = None
) -> F32:
    """Weights f32[rows, K] of a matrix at `width` >= 1 planes; every row unless told otherwise."""
    if width < 1:
        raise ValueError("a matrix of width 0 has no weights")
    count = view.shape.rows - first_row if rows is None else rows
    codes = read_rows(block, view, first_row, count, width)
    return to_float(codes.format, codes.codes, codes.scales, width=width)
