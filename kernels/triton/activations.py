"""Gated activations, as values."""

import triton
import triton.language as tl

SILU = tl.constexpr(0)
GELU = tl.constexpr(1)
KINDS = {"silu": SILU.value, "gelu": GELU.value}


@triton.jit
def activate(x, KIND: tl.constexpr):
    """silu, or gelu in its tanh form. Both by an exponential of a negative number, which cannot overflow."""
    if KIND == SILU:
        return x * logistic(x)
    else:
        inner = 0.7978845608028654 * tl.fma(0.044715 * x * x, x, x)
        return x * logistic(2.0 * inner)


@triton.jit
def logistic(x):
    """1 / (1 + exp(-x)), exact to a few units also where exp(-x) is huge."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1.0 + small)
