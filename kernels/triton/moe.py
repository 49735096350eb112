"""Experts of a mixture-of-experts layer, for a few rows (decode)."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.layout import STRIP_ROWS
from ebbtide.kernels.ops import Activation
from ebbtide.kernels.triton.activations import KINDS, activate
from ebbtide.kernels.triton.arrange import X_SCALE, arranged_shape
from ebbtide.kernels.triton.planes import MIXED, known_width
from ebbtide.kernels.triton.products import strip_products
from ebbtide.kernels.triton.scales import row_pair
from ebbtide.kernels.triton.tables import DeviceTable
from ebbtide.kernels.triton.views import HALF_COLS, tiling_for, view_of


def moe(
    arranged: torch.Tensor,
    idx: torch.Tensor,
    chosen: torch.Tensor,
    gate_up: DeviceTable,
    down: DeviceTable,
    hidden: torch.Tensor,
    out: torch.Tensor,
    fault: torch.Tensor,
    activation: Activation,
    *,
    width: int = MIXED.value,
) -> None:
    """out[m, j] = down_e(act(gate_e(x[m])) * up_e(x[m])), e = idx[m, j], where chosen[e] is not 0.

    `arranged` holds x[M, D] (`arrange.py`); idx i32 [M, k], chosen u8 [E], out f32 [M, k, D]; `hidden` is
    scratch, f32 of `arranged_shape(M k, F)`. Entries of other experts are left as they are; so are those of
    an absent expert, and each adds 1 to `fault` i32 [1]. `width` promises what all widths are (`planes.py`).
    """
    rows, top_k = idx.shape
    gate, up = gate_up.layout.views
    d_ff = gate.shape.rows
    assert up.shape.rows == d_ff == down.layout.cols and len(down.layout.views) == 1
    assert arranged.is_contiguous() and arranged.shape == arranged_shape(rows, gate_up.layout.cols)
    assert hidden.is_contiguous() and hidden.shape == arranged_shape(rows * top_k, d_ff)
    assert idx.is_contiguous() and out.is_contiguous() and out.shape == (rows, top_k, down.layout.rows)
    assert gate_up.layout.planes and len(chosen) == len(gate_up.widths) == len(down.widths)
    if rows == 0:
        return
    first, second = tiling_for(gate_up.layout.cols), tiling_for(d_ff)
    _, tiles, _, halves = hidden.shape
    hidden_kernel[(tiles * halves, rows * top_k)](
        arranged,
        arranged.stride(0),
        idx,
        chosen,
        gate_up.addresses,
        gate_up.addresses.stride(0),
        gate_up.widths,
        down.widths,
        view_of(gate_up.layout, 0),
        view_of(gate_up.layout, 1),
        hidden,
        hidden.stride(0),
        fault,
        d_ff // STRIP_ROWS,
        gate_up.layout.cols // HALF_COLS,
        TOP_K=top_k,
        GATE=int(gate.shape.format.kind),
        UP=int(up.shape.format.kind),
        ACTIVATION=KINDS[activation],
        GATE_WIDTH=known_width(width, gate.shape.format.planes),
        UP_WIDTH=known_width(width, up.shape.format.planes),
        PAGE=gate_up.page_bytes,
        HALVES=first.halves,
        HIDDEN=halves,
        num_warps=first.warps,
        enable_fp_fusion=False,
    )
    shape = down.layout.views[0].shape
    down_kernel[(shape.strips, rows * top_k)](
        hidden,
        hidden.stride(0),
        idx,
        chosen,
        down.addresses,
        down.addresses.stride(0),
        gate_up.widths,
        down.widths,
        view_of(down.layout, 0),
        out,
        shape.rows,
        d_ff // HALF_COLS,
        KIND=int(shape.format.kind),
        WIDTH=known_width(width, shape.format.planes),
        PAGE=down.page_bytes,
        HALVES=second.halves,
        num_warps=second.warps,
        enable_fp_fusion=False,
    )


@triton.jit
def is_chosen(chosen, expert):
    """Whether this call computes the expert."""
    return tl.load(chosen + expert) != 0


@triton.jit
def hidden_kernel(
    arranged,
    arranged_step,
    idx,
    chosen,
    pages,
    pages_step,
    widths,
    down_widths,
    gate,
    up,
    hidden,
    hidden_step,
    fault,
    strips,
    halves,
    TOP_K: tl.constexpr,
    GATE: tl.constexpr,
    UP: tl.constexpr,
    ACTIVATION: tl.constexpr,
    GATE_WIDTH: tl.constexpr,
    UP_WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    HALVES: tl.constexpr,
    HIDDEN: tl.constexpr,
):
    """Program (t, i) writes the 16 hidden values that strip t has for pair i, arranged: they are half line t.

    Programs past the last strip write the zeros that a last tile of hidden values ends in.
    """
    strip = tl.program_id(0)
    pair = tl.program_id(1)
    expert = tl.load(idx + pair)
    column = 2 * row_pair(tl.arange(0, 8))
    out = hidden + pair.to(tl.int64) * hidden_step + (strip // HIDDEN) * (17 * HIDDEN) + strip % HIDDEN
    if is_chosen(chosen, expert):
        width = tl.load(widths + expert)
        if strip >= strips:
            put_half_line(out, column, tl.zeros([8], tl.float32), tl.zeros([8], tl.float32), HIDDEN)
        elif (width == 0) | (tl.load(down_widths + expert) == 0):
            if strip == 0:
                tl.atomic_add(fault, 1)
        else:
            x = arranged + (pair // TOP_K).to(tl.int64) * arranged_step
            table = pages + expert * pages_step
            gate_even, gate_odd = strip_products(
                table, gate, strip, x, 0, halves, width, 1, GATE, GATE_WIDTH, PAGE, HALVES
            )
            up_even, up_odd = strip_products(
                table, up, strip, x, 0, halves, width, 1, UP, UP_WIDTH, PAGE, HALVES
            )
            even = activate(gate_even[0], ACTIVATION) * up_even[0]
            odd = activate(gate_odd[0], ACTIVATION) * up_odd[0]
            put_half_line(out, column, even, odd, HIDDEN)


@triton.jit
def put_half_line(out, column, even, odd, HIDDEN: tl.constexpr):
    """Store 16 values as one half line of an arranged buffer."""
    tl.store(out + column * HIDDEN, even * X_SCALE)
    tl.store(out + (column + 1) * HIDDEN, odd * X_SCALE)
    tl.store(out + 16 * HIDDEN, tl.sum(even + odd, axis=0))


@triton.jit
def down_kernel(
    hidden,
    hidden_step,
    idx,
    chosen,
    pages,
    pages_step,
    gate_up_widths,
    widths,
    view,
    out,
    rows,
    halves,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    HALVES: tl.constexpr,
):
    """Program (t, i) writes the 16 outputs of strip t for pair i."""
    strip = tl.program_id(0)
    pair = tl.program_id(1)
    expert = tl.load(idx + pair)
    if is_chosen(chosen, expert):
        width = tl.load(widths + expert)
        if (width != 0) & (tl.load(gate_up_widths + expert) != 0):
            x = hidden + pair.to(tl.int64) * hidden_step
            even, odd = strip_products(
                pages + expert * pages_step, view, strip, x, 0, halves, width, 1, KIND, WIDTH, PAGE, HALVES
            )
            row = strip * 16 + 2 * row_pair(tl.arange(0, 8))
            target = out + pair.to(tl.int64) * rows + row
            tl.store(target, even[0], mask=row < rows)
            tl.store(target + 1, odd[0], mask=row + 1 < rows)
