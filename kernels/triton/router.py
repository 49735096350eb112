"""The router: scores of all experts, then the k best of each row and their weights."""

import torch
import triton
import triton.language as tl

COLS = 256
"""Columns that are summed side by side."""
EACH = 4
"""Experts of one program: the row is read that much less often."""
LOWEST = tl.constexpr(-3.4028234663852886e38)


def router(
    x: torch.Tensor,
    w: torch.Tensor,
    top_k: int,
    normalise: bool,
    scores: torch.Tensor,
    idx: torch.Tensor,
    weights: torch.Tensor,
) -> None:
    """softmax(x[M, D] w[E, D]^T), the largest k (ties: lower index first) into idx i32, weights f32 [M, k].

    `scores` f32 [M, E] is scratch. Rows of x may be apart. NaN scores count as -inf, +inf as the largest f32;
    a row with nothing above -inf becomes uniform. With `normalise` the weights of a row add up to 1.
    """
    rows, cols = x.shape
    experts = w.shape[0]
    assert w.shape == (experts, cols) and w.is_contiguous() and x.stride(1) == 1
    assert scores.shape == (rows, experts) and scores.is_contiguous() and 0 < top_k <= experts
    assert idx.shape == weights.shape == (rows, top_k) and idx.is_contiguous() and weights.is_contiguous()
    if not rows:
        return
    score_kernel[(rows, triton.cdiv(experts, EACH))](
        x, w, scores, x.stride(0), cols, experts, EACH=EACH, COLS=COLS, num_warps=2, enable_fp_fusion=False
    )
    select_kernel[(rows,)](
        scores,
        idx,
        weights,
        experts,
        TOP_K=top_k,
        NORMALISE=normalise,
        EXPERTS=triton.next_power_of_2(experts),
        SLOTS=triton.next_power_of_2(top_k),
        num_warps=1,
        enable_fp_fusion=False,
    )


@triton.jit
def score_kernel(x, w, scores, x_step, cols, experts, EACH: tl.constexpr, COLS: tl.constexpr):
    """Program (m, t) writes the scores that row m has for experts EACH t ... .

    The order of the sum depends on the number of columns alone.
    """
    row = tl.program_id(0).to(tl.int64)
    expert = tl.program_id(1) * EACH + tl.arange(0, EACH)
    lane = tl.arange(0, COLS)
    sums = tl.zeros([EACH, COLS], tl.float32)
    for start in range(0, cols, COLS):
        live = start + lane < cols
        values = tl.load(x + row * x_step + start + lane, mask=live, other=0.0)[None, :]
        place = expert.to(tl.int64)[:, None] * cols + (start + lane)[None, :]
        both = live[None, :] & (expert < experts)[:, None]
        sums = tl.fma(tl.broadcast_to(values, [EACH, COLS]), tl.load(w + place, mask=both, other=0.0), sums)
    tl.store(scores + row * experts + expert, tl.sum(sums, axis=1), mask=expert < experts)


@triton.jit
def select_kernel(
    scores,
    idx,
    weights,
    experts,
    TOP_K: tl.constexpr,
    NORMALISE: tl.constexpr,
    EXPERTS: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Program m chooses for row m, one expert after the other; their shares are added in that order."""
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, EXPERTS)
    slot = tl.arange(0, SLOTS)
    real = expert < experts
    score = tl.load(scores + row * experts + expert, mask=real, other=float("-inf"))
    score = tl.where(score == score, score, float("-inf"))
    score = tl.where(tl.max(score, axis=0) == float("-inf"), 0.0, score)
    score = tl.minimum(tl.maximum(score, LOWEST), -LOWEST)
    # What is no expert, or was chosen already, is below the lowest score of any expert.
    left = tl.where(real, score, float("-inf"))
    share = tl.exp(left - tl.max(left, axis=0))
    total = 0.0 if NORMALISE else tl.sum(share, axis=0)
    indices = tl.zeros([SLOTS], tl.int32)
    shares = tl.zeros([SLOTS], tl.float32)
    for j in tl.static_range(TOP_K):
        best = tl.max(left, axis=0)
        chosen = tl.min(tl.where(left == best, expert, EXPERTS), axis=0)
        own = tl.sum(tl.where(expert == chosen, share, 0.0), axis=0)
        left = tl.where(expert == chosen, float("-inf"), left)
        if NORMALISE:
            total += own
        indices = tl.where(slot == j, chosen, indices)
        shares = tl.where(slot == j, own, shares)
    tl.store(idx + row * TOP_K + slot, indices, mask=slot < TOP_K)
    tl.store(weights + row * TOP_K + slot, shares / total, mask=slot < TOP_K)
