"""Copies that take as long as in a slower slot, by the card's own clock: what is done before and behind each.

The state of a queue of copies is two int64: when the copy under way began, and by how much the last pause was
too long, in nanoseconds. The next copy counts as begun that much earlier, so that errors do not add up. Time
in which nothing was copied is lost, as on a real bus.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer

from ebbtide.kernels.triton.scatter import on_device

STATE_BYTES = 256
"""Of which two int64 are used. Zeros before the first copy."""


@triton.jit
def card_clock(state):
    """Nanoseconds."""
    return globaltimer()


def begin(state: int, device: torch.device, clock: Any = card_clock) -> None:
    """What is added to the current stream next is a copy. `state` is an address; `clock(state)` a time."""
    with on_device(device):
        begin_kernel[(1,)](state, CLOCK=clock, num_warps=1)


def end(state: int, least_ns: int, device: torch.device, clock: Any = card_clock) -> None:
    """The stream goes on `least_ns` after that copy began, at the earliest."""
    with on_device(device):
        end_kernel[(1,)](state, least_ns, CLOCK=clock, num_warps=1)


@triton.jit(do_not_specialize=["state"])
def begin_kernel(state: tl.int64, CLOCK: tl.constexpr):
    """One program. A pause that was too long is made up for once."""
    at = state.to(tl.int64).to(tl.pointer_type(tl.int64))
    tl.store(at, CLOCK(at) - tl.load(at + 1))
    tl.store(at + 1, tl.zeros([], tl.int64))


@triton.jit(do_not_specialize=["state", "least_ns"])
def end_kernel(state: tl.int64, least_ns: tl.int64, CLOCK: tl.constexpr):
    """One program, which looks at the clock until it is time."""
    at = state.to(tl.int64).to(tl.pointer_type(tl.int64))
    over = tl.load(at) + least_ns
    now = CLOCK(at)
    if now < over:
        while now < over:
            now = CLOCK(at)
        tl.store(at + 1, now - over)
