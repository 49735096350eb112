"""Plane matrices, plainly: bytes behind a page table -> codes and scales -> weights f32[N, K]."""

import ctypes
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.layout import (
    E8_BIAS,
    GROUP_COLS,
    LINE_BYTES,
    ROW_OF_PAIR,
    S6_BIAS,
    STRIP_ROWS,
    SUPER_COLS,
    TABLE_ZERO,
    MatrixView,
    ScaleKind,
)
from ebbtide.kernels.ops import BlockTable, KernelError

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Weights:
    """One matrix at a width: w = scale * (code * step - offset) + minimum, per 16 columns."""

    codes: torch.Tensor
    """uint8 [N, K]: the first `width` bits of every code; of a table: what they stand for, plus `offset`."""
    scale: torch.Tensor
    """float32 [N, K / 16]"""
    minimum: torch.Tensor
    """float32 [N, K / 16]"""
    step: float
    offset: float

    def dense(self, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """The weights [N, K]."""
        scale, minimum = (t.to(dtype).repeat_interleave(16, dim=1) for t in (self.scale, self.minimum))
        return scale * (self.codes.to(dtype) * self.step - self.offset) + minimum


def load_view(table: BlockTable, index: int, view: int) -> Weights:
    """Matrix `view` of block `index` at its committed width. Raises KernelError where the block is absent."""
    matrix = table.layout.views[view]
    width = min(int(table.widths[index]), matrix.shape.format.planes)
    if width == 0:
        raise KernelError("a chosen expert is not in fast memory")
    shape, dropped = matrix.shape, matrix.shape.format.planes - width
    planes = [read_bytes(table, index, at, shape.plane_bytes) for at in matrix.plane_offsets[:width]]
    meta = read_bytes(table, index, matrix.meta_offset, shape.scale_bytes)
    scale, minimum = _scales(matrix, meta)
    codes = torch.from_numpy(unpack_codes(planes, shape.strips, shape.groups)[: shape.rows])
    entries = _entries(table, index, matrix, width)
    if entries is not None:
        codes = entries[codes.long()]
        return Weights(codes, scale[: shape.rows], minimum[: shape.rows], 1.0, float(TABLE_ZERO))
    step = float(2**dropped)
    offset = shape.format.zero - (step - 1) / 2
    return Weights(codes, scale[: shape.rows], minimum[: shape.rows], step, offset)


def _entries(table: BlockTable, index: int, matrix: MatrixView, width: int) -> torch.Tensor | None:
    """u8[2^width]: what codes of `width` bits stand for, plus TABLE_ZERO; None where there is no table."""
    form, count = matrix.shape.format, 1 << width
    if form.own_tables:
        return torch.from_numpy(read_bytes(table, index, matrix.tables_offset + count, count))
    return (torch.tensor(form.table_at(width)) + TABLE_ZERO).to(torch.uint8) if form.table else None


def read_bytes(table: BlockTable, index: int, start: int, count: int) -> U8:
    """`count` bytes from `start` of the block's own address space."""
    pages, parts, done = table.pages, [], 0
    while done < count:
        page, within = divmod(start + done, pages.page_bytes)
        page_id = int(table.page_table[index, page])
        if page_id < 0:
            raise KernelError("a chosen expert is not in fast memory")
        slab, place = divmod(page_id, pages.pages_per_slab)
        address = int(pages.slab_bases[slab]) + place * pages.page_bytes + within
        part = min(count - done, pages.page_bytes - within)
        parts.append(np.ctypeslib.as_array((ctypes.c_uint8 * part).from_address(address)))
        done += part
    return np.concatenate(parts)


def unpack_codes(planes: list[U8], strips: int, groups: int) -> U8:
    """Codes u8[strips * 16, groups * 32] from the first planes, most significant first."""
    codes: U8 = np.zeros((strips * STRIP_ROWS, groups * GROUP_COLS), np.uint8)
    for plane in planes:
        codes = np.bitwise_or(codes << np.uint8(1), _plane_bits(plane, strips, groups))
    return codes


def _plane_bits(plane: U8, strips: int, groups: int) -> U8:
    """Bits u8[strips * 16, groups * 32]: bit i of byte j of half h is column 16h + 2i + (j & 1)."""
    # Axes: strip, group, half, row pair, column parity; then i, the column pair.
    lines = plane.reshape(strips, groups, 2, LINE_BYTES // 4, 2)
    bits = np.unpackbits(lines[..., None], axis=-1, bitorder="little")
    by_row = bits[:, :, :, np.argsort(ROW_OF_PAIR)]
    return by_row.transpose(0, 3, 1, 2, 5, 4).reshape(strips * STRIP_ROWS, groups * GROUP_COLS)


def _scales(matrix: MatrixView, meta: U8) -> tuple[torch.Tensor, torch.Tensor]:
    """(scale, minimum) f32[padded rows, K / 16]."""
    shape, kind = matrix.shape, matrix.shape.format.kind
    strips = meta.reshape(shape.strips, -1)
    if kind is ScaleKind.HALF:
        scale, minimum = _halves(strips.reshape(shape.strips, shape.groups, 1, 32)), None
    elif kind is ScaleKind.E8:
        scale, minimum = np.ldexp(np.float32(1), strips.astype(np.int32) - E8_BIAS), None
    elif kind is ScaleKind.HALF_MIN:
        both = _halves(strips.reshape(shape.strips, shape.groups, 2, 32))
        scale, minimum = both[:, :, :1], both[:, :, 1:]
    elif kind is ScaleKind.K6:
        scale, minimum = _six_bit_scales(strips.reshape(shape.strips, shape.cols // SUPER_COLS, -1))
    elif kind is ScaleKind.S6:
        scale, minimum = _signed_scales(strips.reshape(shape.strips, shape.cols // SUPER_COLS, -1)), None
    else:
        scale, minimum = _eight_bit_scales(strips.reshape(shape.strips, shape.cols // SUPER_COLS, -1)), None
    minimum = np.zeros_like(scale) if minimum is None else minimum
    return _by_row(scale, shape.cols), _by_row(minimum, shape.cols)


def _by_row(scale: F32, cols: int) -> torch.Tensor:
    """[strips, ..., 16 rows] with any number of scale groups -> [rows, cols / 16]."""
    per_strip = scale.reshape(scale.shape[0], -1, STRIP_ROWS)
    spread = np.repeat(per_strip, cols // 16 // per_strip.shape[1], axis=1)
    return torch.from_numpy(np.ascontiguousarray(spread.transpose(0, 2, 1).reshape(-1, cols // 16)))


def _halves(raw: U8) -> F32:
    """f16 -> f32 along the last axis."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _six_bits(low: U8, high: U8) -> F32:
    """Sixteen six-bit values from 8 bytes of low nibbles and 4 bytes of top bits."""
    rows = np.arange(STRIP_ROWS)
    nibble = low[..., rows // 2] >> (4 * (rows % 2)) & 15
    top = high[..., rows // 4] >> (2 * (rows % 4)) & 3
    return (nibble | top << 4).astype(np.float32)


def _six_bit_scales(meta: U8) -> tuple[F32, F32]:
    """meta [strips, supers, 256] -> scale, minimum [strips, supers, 8, 16]."""
    d, dmin = _halves(meta[..., None, :32]), _halves(meta[..., None, 32:64])
    groups = meta[..., 64:].reshape(*meta.shape[:2], 8, 24)
    sc, mn = _six_bits(groups[..., :8], groups[..., 8:12]), _six_bits(groups[..., 12:20], groups[..., 20:])
    return d * sc, -(dmin * mn)


def _signed_scales(meta: U8) -> F32:
    """meta [strips, supers, 128] -> scale [strips, supers, 8, 16]."""
    groups = meta[..., 32:].reshape(*meta.shape[:2], 8, 12)
    return _halves(meta[..., None, :32]) * (_six_bits(groups[..., :8], groups[..., 8:]) - S6_BIAS)


def _eight_bit_scales(meta: U8) -> F32:
    """meta [strips, supers, 288] -> scale [strips, supers, 16, 16]."""
    signed = np.ascontiguousarray(meta[..., 32:]).view(np.int8).reshape(*meta.shape[:2], 16, 16)
    return _halves(meta[..., None, :32]) * signed.astype(np.float32)
