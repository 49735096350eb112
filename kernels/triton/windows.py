"""Short stretches of a block's address space, read through its page table."""

import triton
import triton.language as tl


@triton.jit
def open_window(pages, offset, PAGE: tl.constexpr):
    """A stretch of at most PAGE bytes from `offset` on, which meets two pages at most.

    `pages` points at the block's page addresses; PAGE is the size of a page, or 0 for one contiguous piece.
    Returns (bytes of it in the first page, its address if it went on there, if it went on in the next page).
    """
    if PAGE == 0:
        address = tl.load(pages) + offset
        return 0, address, address
    else:
        page = offset // PAGE
        within = offset - page * PAGE
        first = tl.load(pages + page) + within
        return PAGE - within, first, tl.load(pages + page + 1) + (within - PAGE)


@triton.jit
def window_at(window, at, PAGE: tl.constexpr):
    """int64 addresses of bytes `at` of a window. The next page is only touched by those that lie in it."""
    if PAGE == 0:
        return window[1] + at
    else:
        return tl.where(at < window[0], window[1], window[2]) + at
