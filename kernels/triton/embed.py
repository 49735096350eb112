"""Rows of a plane matrix: the embedding of tokens."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.triton.scales import load_scales
from ebbtide.kernels.triton.tables import DeviceTable
from ebbtide.kernels.triton.views import HALF_COLS, view_of
from ebbtide.kernels.triton.windows import open_window, window_at

HALVES = 16
"""Half lines of one program; `load_scales` begins at multiples of 16."""


def embed(w: DeviceTable, ids: torch.Tensor, out: torch.Tensor, fault: torch.Tensor) -> None:
    """out[M, D] = rows `ids` i32 [M] of a one-view block, f32, at the block's width; out rows may be apart.

    An id that is no row, and an absent block, leave their rows as they are and add 1 each to `fault` i32 [1].
    """
    (matrix,) = w.layout.views
    halves = matrix.shape.cols // HALF_COLS
    assert out.shape == (len(ids), matrix.shape.cols) and out.stride(1) == 1 and ids.is_contiguous()
    if len(ids):
        embed_kernel[(len(ids), triton.cdiv(halves, HALVES))](
            w.addresses,
            w.widths,
            view_of(w.layout, 0),
            ids,
            out,
            fault,
            matrix.shape.rows,
            halves,
            out.stride(0),
            KIND=int(matrix.shape.format.kind),
            PAGE=w.page_bytes,
            HALVES=HALVES,
            num_warps=4,
            enable_fp_fusion=False,
        )


@triton.jit
def embed_kernel(
    pages,
    widths,
    view,
    ids,
    out,
    fault,
    rows,
    halves,
    out_step,
    KIND: tl.constexpr,
    PAGE: tl.constexpr,
    HALVES: tl.constexpr,
):
    """Program (m, t) writes half lines HALVES t ... of row m, rounded as the reference rounds."""
    token = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * HALVES
    row = tl.load(ids + token)
    width = tl.minimum(tl.load(widths), view.plane_count)
    if (row < 0) | (row >= rows) | (width == 0):
        if start == 0:
            tl.atomic_add(fault, 1)
    else:
        half = tl.arange(0, HALVES)[:, None]
        column = tl.arange(0, 16)[None, :]
        here = tl.minimum(half, halves - 1 - start)
        strip = row // 16
        codes = row_codes(pages, view.planes, strip * halves + start, here, row % 16, width, column, PAGE)
        step = (1 << (view.plane_count - width)).to(tl.float32)
        pair = tl.zeros([1, 1], tl.int32) + row % 16 // 2
        scales = load_scales(pages, view.meta + strip * view.strip_meta, start, here, pair, KIND, PAGE)
        is_odd = row % 2 == 1
        scale = tl.where(is_odd, scales[2], scales[0])
        minimum = tl.where(is_odd, scales[3], scales[1])
        values = scale * (codes * step - (view.zero - (step - 1) * 0.5)) + minimum
        target = out + token * out_step + (start + half) * 16 + column
        tl.store(target, values, mask=start + half < halves)


@triton.jit
def row_codes(pages, offsets, first, half, row, width, column, PAGE: tl.constexpr):
    """f32 [HALVES, 16]: the first `width` bits of the codes of one row of a strip; `first` + half [HALVES, 1]
    are half lines of the plane.

    The two bytes of a row of a half line hold the even columns, then the odd ones (kernels/layout.py).
    """
    # Its own inverse: the upper two bits of a place change places (`ROW_OF_PAIR`).
    place = (row & 3) | ((row & 4) << 1) | ((row & 8) >> 1)
    bit = ((column & 1) * 8 + (column >> 1)).to(tl.uint32)
    codes = tl.zeros([half.shape[0], 16], tl.uint32)
    for plane in tl.static_range(8):
        if plane < width:
            window = open_window(pages, offsets[plane] + first * 32, PAGE)
            address = window_at(window, half * 32 + place * 2, PAGE)
            word = tl.load(address.to(tl.pointer_type(tl.uint16))).to(tl.uint32)
            codes = (codes << 1) | ((word >> bit) & 1)
    return codes.to(tl.int32).to(tl.float32)
