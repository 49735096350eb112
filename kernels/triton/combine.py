"""The weighted sum of experts' outputs."""

import torch
import triton
import triton.language as tl

TILE = 256


def combine(pair: torch.Tensor, weights: torch.Tensor, out: torch.Tensor) -> None:
    """out[M, D] += sum over j of weights[M, k] * pair[M, k, D], in order of j; all f32, out rows may be
    apart.
    """
    rows, top_k, cols = pair.shape
    assert pair.is_contiguous() and weights.is_contiguous() and weights.shape == (rows, top_k)
    assert out.shape == (rows, cols) and out.stride(1) == 1
    if rows:
        combine_kernel[(rows, triton.cdiv(cols, TILE))](
            pair,
            weights,
            out,
            cols,
            out.stride(0),
            TOP_K=top_k,
            COLS=TILE,
            num_warps=2,
            enable_fp_fusion=False,
        )


@triton.jit
def combine_kernel(pair, weights, out, cols, out_step, TOP_K: tl.constexpr, COLS: tl.constexpr):
    """Program (m, t) adds to columns COLS t ... of row m. Products are rounded before they are added."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    live = column < cols
    target = out + row * out_step + column
    total = tl.load(target, mask=live)
    for j in range(TOP_K):
        values = tl.load(pair + (row * TOP_K + j) * cols + column, mask=live)
        total += tl.load(weights + row * TOP_K + j) * values
    tl.store(target, total, mask=live)
