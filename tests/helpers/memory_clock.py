"""Clocks for kernels that are a number in memory: word 2 behind `state`."""

import triton
import triton.language as tl


@triton.jit
def memory_clock(state):  # type: ignore[no-untyped-def]
    """Each look moves it on by word 3."""
    now = tl.load(state + 2)
    tl.store(state + 2, now + tl.load(state + 3))
    return now


@triton.jit
def leaping_clock(state):  # type: ignore[no-untyped-def]
    """Each look moves it on by more than anybody waits for."""
    now = tl.load(state + 2)
    tl.store(state + 2, now + (1 << 40))
    return now
