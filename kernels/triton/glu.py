"""The gated activation of a dense feed-forward network, and the gate of a shared expert."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.ops import Activation
from ebbtide.kernels.triton.activations import KINDS, activate, logistic

TILE = 256
MOST_COLS = 1024
"""Columns of a row that are summed side by side."""


def glu(gate_up: torch.Tensor, out: torch.Tensor, activation: Activation) -> None:
    """out[M, F] = act(gate_up[M, :F]) * gate_up[M, F:]; all f32, rows may be apart."""
    rows, cols = out.shape
    assert gate_up.shape == (rows, 2 * cols) and gate_up.stride(1) == out.stride(1) == 1
    if rows:
        glu_kernel[(rows, triton.cdiv(cols, TILE))](
            gate_up,
            out,
            cols,
            gate_up.stride(0),
            out.stride(0),
            ACTIVATION=KINDS[activation],
            COLS=TILE,
            num_warps=2,
            enable_fp_fusion=False,
        )


def row_gate(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
    """out[M] = 1 / (1 + exp(-sum of x[M, D] * weight[D])); all f32, rows and outputs may be apart."""
    rows, cols = x.shape
    assert weight.shape == (cols,) and weight.is_contiguous() and x.stride(1) == 1 and out.shape == (rows,)
    if rows:
        tile = min(triton.next_power_of_2(cols), MOST_COLS)
        row_gate_kernel[(rows,)](
            x,
            weight,
            out,
            cols,
            x.stride(0),
            out.stride(0),
            COLS=tile,
            num_warps=max(1, tile // 256),
            enable_fp_fusion=False,
        )


@triton.jit
def glu_kernel(gate_up, out, cols, in_step, out_step, ACTIVATION: tl.constexpr, COLS: tl.constexpr):
    """Program (m, t) writes columns COLS t ... of row m."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    live = column < cols
    source = gate_up + row * in_step + column
    gate = tl.load(source, mask=live, other=0.0)
    up = tl.load(source + cols, mask=live, other=0.0)
    tl.store(out + row * out_step + column, activate(gate, ACTIVATION) * up, mask=live)


@triton.jit
def row_gate_kernel(x, weight, out, cols, x_step, out_step, COLS: tl.constexpr):
    """Program m writes the gate of row m. The order of the sum depends on the number of columns alone."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, COLS)
    sums = tl.zeros([COLS], tl.float32)
    for start in range(0, cols, COLS):
        live = start + lane < cols
        values = tl.load(x + row * x_step + start + lane, mask=live, other=0.0)
        sums = tl.fma(values, tl.load(weight + start + lane, mask=live, other=0.0), sums)
    tl.store(out + row * out_step, logistic(tl.sum(sums, axis=0)))
