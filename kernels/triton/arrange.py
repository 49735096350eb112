"""Activations in the order in which plane products read them: tile by tile, column by column of all half
lines.

    arranged[m, t, c, h] = x[m, 16 (t T + h) + c] * 2^64 for c < 16; arranged[m, t, 16, h] = the sum of that
    half line

T is the number of half lines in a tile (`tiling_for`); half lines past the end are zeros. Threads that work
on neighbouring half lines then read neighbouring addresses. The factor keeps products with codes (which are
integers times 2^-149) out of the denormal range for activations down to 2^-37; activations of 2^64 and more
become infinite, and what is computed from them is not finite.
"""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.triton.views import HALF_COLS, X_SHIFT, tiling_for

ARRANGED_ROWS = HALF_COLS + 1
X_SCALE = tl.constexpr(2.0**X_SHIFT)


def arranged_shape(rows: int, cols: int) -> tuple[int, int, int, int]:
    """Shape of the f32 buffer for `rows` activations of `cols` columns: [rows, tiles, 17, half lines of a
    tile].
    """
    halves = tiling_for(cols).halves
    return rows, triton.cdiv(cols // HALF_COLS, halves), ARRANGED_ROWS, halves


def arrange(x: torch.Tensor, arranged: torch.Tensor) -> None:
    """Write f32 x[M, K] (row stride may exceed K) into `arranged`, f32 of `arranged_shape(M, K)`."""
    rows, cols = x.shape
    assert x.stride(1) == 1 and cols % HALF_COLS == 0
    assert arranged.is_contiguous() and arranged.shape == arranged_shape(rows, cols)
    _, tiles, _, halves = arranged.shape
    arrange_kernel[(rows, tiles)](
        x, arranged, x.stride(0), cols // HALF_COLS, HALVES=halves, num_warps=4, enable_fp_fusion=False
    )


@triton.jit
def arrange_kernel(x, arranged, x_step, halves, HALVES: tl.constexpr):
    """Program (m, t) writes tile t of row m."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, HALVES)
    half = tl.program_id(1) * HALVES + lane
    column = tl.arange(0, 16)[None, :]
    live = (half < halves)[:, None]
    values = tl.load(x + row * x_step + half[:, None] * 16 + column, mask=live, other=0.0)
    out = arranged + (row * tl.num_programs(1) + tl.program_id(1)) * (17 * HALVES) + lane
    tl.store(out[:, None] + column * HALVES, values * X_SCALE)
    tl.store(out + 16 * HALVES, tl.sum(values, axis=1))
