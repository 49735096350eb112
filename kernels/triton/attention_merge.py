"""What a query has seen so far: the highest score, the sum of weights and of weighted values, put together.

Weights are 2^(score - highest). Parts are merged one after the other, in the order of their positions.
"""

import triton
import triton.language as tl

EMPTY = tl.constexpr(float("-inf"))
"""The highest score of nothing."""


@triton.jit
def merge(top, total, values, next_top, next_total, next_values):
    """Two parts as one. Merging with nothing, on either side, changes no bit."""
    high = tl.maximum(top, next_top)
    first = tl.exp2(top - high)
    second = tl.exp2(next_top - high)
    both_total = tl.fma(total, first, next_total * second)
    both_values = tl.fma(values, first, next_values * second)
    if_none = tl.where(top == EMPTY, next_total, both_total)
    if_none_values = tl.where(top == EMPTY, next_values, both_values)
    nothing = next_top == EMPTY
    return high, tl.where(nothing, total, if_none), tl.where(nothing, values, if_none_values)
