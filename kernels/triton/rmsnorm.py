"""RMS norm of whole rows, or of every head of a row."""

import torch
import triton
import triton.language as tl

MOST_COLS = 1024
"""Columns that are summed side by side; a wider row is worked through in tiles of this size."""


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """out[M, D] = x / rms(x) * weight[D]; all f32, rows may be apart, out may be x."""
    assert x.dim() == out.dim() == 2
    rmsnorm_heads(x[:, None], weight, eps, out[:, None])


def rmsnorm_heads(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """The same for every head of x[M, H, d], out[M, H, d]; weight[d]. Rows and heads may be apart."""
    rows, heads, cols = x.shape
    assert out.shape == x.shape and weight.shape == (cols,) and weight.is_contiguous()
    assert x.stride(2) == out.stride(2) == 1
    if rows:
        tile = min(triton.next_power_of_2(cols), MOST_COLS)
        rmsnorm_kernel[(rows, heads)](
            x,
            weight,
            out,
            x.stride(0),
            x.stride(1),
            out.stride(0),
            out.stride(1),
            cols,
            eps,
            COLS=tile,
            num_warps=max(1, tile // 256),
            enable_fp_fusion=False,
        )


@triton.jit
def rmsnorm_kernel(x, weight, out, x_step, x_head, out_step, out_head, cols, eps, COLS: tl.constexpr):
    """Program (m, h) writes head h of row m. The order of the sum depends on the number of columns alone."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    source = x + row * x_step + head * x_head
    target = out + row * out_step + head * out_head
    lane = tl.arange(0, COLS)
    squares = tl.zeros([COLS], tl.float32)
    for start in range(0, cols, COLS):
        values = tl.load(source + start + lane, mask=start + lane < cols, other=0.0)
        squares = tl.fma(values, values, squares)
    scale = 1.0 / tl.sqrt_rn(tl.sum(squares, axis=0) / cols + eps)
    for start in range(0, cols, COLS):
        live = start + lane < cols
        values = tl.load(source + start + lane, mask=live)
        tl.store(target + start + lane, values * scale * tl.load(weight + start + lane, mask=live), mask=live)
