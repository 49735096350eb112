"""Rotary position embedding, in place."""

import torch
import triton
import triton.language as tl


def rope(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    interleaved: bool,
    fault: torch.Tensor,
) -> None:
    """Rotate the first r values of every head of f32 x[M, H, d]; the rest of a head stays as it is.

    cos, sin f32 [P, r / 2]; positions i32 [M]; rows of x may be apart, heads are not. Interleaved pairs are
    (0, 1), (2, 3), ...; otherwise value i is paired with i + r / 2. A position outside of the tables leaves
    its row as it is and adds 1 to `fault` i32 [1].
    """
    rows, heads, head_dim = x.shape
    table_rows, pairs = cos.shape
    assert x.stride(2) == 1 and x.stride(1) == head_dim and 2 * pairs <= head_dim
    assert sin.shape == cos.shape and cos.is_contiguous() and sin.is_contiguous()
    assert positions.shape == (rows,) and positions.is_contiguous()
    if rows and pairs:
        rope_kernel[(rows, heads)](
            x,
            cos,
            sin,
            positions,
            fault,
            x.stride(0),
            head_dim,
            pairs,
            table_rows,
            INTERLEAVED=interleaved,
            PAIRS=triton.next_power_of_2(pairs),
            num_warps=1,
            enable_fp_fusion=False,
        )


@triton.jit
def rope_kernel(
    x,
    cos,
    sin,
    positions,
    fault,
    x_step,
    head_dim,
    pairs,
    table_rows,
    INTERLEAVED: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Program (m, h) rotates head h of row m; products are rounded before they are added."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row)
    if (position < 0) | (position >= table_rows):
        if tl.program_id(1) == 0:
            tl.atomic_add(fault, 1)
    else:
        pair = tl.arange(0, PAIRS)
        live = pair < pairs
        head = x + row * x_step + tl.program_id(1) * head_dim
        if INTERLEAVED:
            first = head + 2 * pair
            second = first + 1
        else:
            first = head + pair
            second = first + pairs
        turn = position.to(tl.int64) * pairs + pair
        c = tl.load(cos + turn, mask=live)
        s = tl.load(sin + turn, mask=live)
        a = tl.load(first, mask=live)
        b = tl.load(second, mask=live)
        tl.store(first, a * c - b * s, mask=live)
        tl.store(second, a * s + b * c, mask=live)
