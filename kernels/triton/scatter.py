"""Copies of pages out of a staging buffer to where they belong."""

from contextlib import AbstractContextManager, nullcontext

import torch
import triton
import triton.language as tl

PIECE_BYTES = 8192
"""What one program copies: four 16-byte vectors a thread. A page of 48 KiB is six programs."""
GRANULE_BYTES = 64
VECTOR_BYTES = 16


def scatter(staged: int, pages: int, page_bytes: int, device: torch.device) -> None:
    """Copy `pages` pages, one behind the other at address `staged`, to the addresses that follow them.

    The int64 addresses begin at `staged + pages * page_bytes`. `page_bytes` is a multiple of 64, `staged` and
    the addresses are multiples of 16. Source and targets do not overlap. Runs on the device's current stream.
    """
    if page_bytes % GRANULE_BYTES or staged % VECTOR_BYTES:
        raise ValueError(f"pages of {page_bytes} bytes at {staged:#x} cannot be copied in vectors")
    if pages == 0 or page_bytes == 0:
        return
    with on_device(device):
        scatter_kernel[(triton.cdiv(page_bytes, PIECE_BYTES), pages)](
            staged, staged + pages * page_bytes, page_bytes, VECTORS=PIECE_BYTES // VECTOR_BYTES, num_warps=4
        )


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Launches inside go to the current stream of that card, if it is one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@triton.jit
def vectors(address, vector):
    """Pointers to the words of 16-byte vectors `vector` [N, 1] from `address` on, [N, 4]."""
    start = (address + vector.to(tl.int64) * 16).to(tl.pointer_type(tl.uint32))
    return tl.multiple_of(start, [1, 16]) + tl.arange(0, 4)[None, :]


@triton.jit(do_not_specialize=["targets", "page_bytes"])
def scatter_kernel(staged: tl.int64, targets: tl.int64, page_bytes: tl.int32, VECTORS: tl.constexpr):
    """Program (i, p) copies piece i of page p."""
    page = tl.program_id(1)
    vector = tl.program_id(0) * VECTORS + tl.arange(0, VECTORS)[:, None]
    target = tl.load((targets + page.to(tl.int64) * 8).to(tl.pointer_type(tl.int64)))
    live = vector * 16 < page_bytes
    words = tl.load(vectors(staged + page.to(tl.int64) * page_bytes, vector), mask=live)
    tl.store(vectors(target, vector), words, mask=live)
