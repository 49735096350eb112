"""Fast memory for tests: scattered pages, and a block's address space put together from them."""

import mmap

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.mapping import Kind
from ebbtide.engine.weights.source import WeightSource

U8 = NDArray[np.uint8]


def read_block(
    source: WeightSource, layer: int, expert: int, kind: Kind, first: int = 0, last: int | None = None
) -> tuple[U8, int]:
    """Read some extents into shuffled pages.

    Returns the address space u8[span] put together, zero where nothing was read, and the bytes read.
    """
    layout = source.expert_layout(layer, kind)
    last = len(layout.extent_ends) - 1 if last is None else last
    page = layout.page_bytes
    begin, end = layout.extent(first)[0] // page, -(-layout.extent(last)[1] // page)
    memory = np.frombuffer(mmap.mmap(-1, page * (end - begin)), np.uint8).reshape(-1, page)
    order = np.random.default_rng(expert).permutation(end - begin)
    targets = [(memory[at].ctypes.data, page) for at in order]
    nbytes = source.read_expert(layer, expert, kind, first, last, targets)
    space = np.zeros(layout.span_bytes, np.uint8)
    for position, at in enumerate(order):
        start = (begin + position) * page
        space[start : start + page] = memory[at]
    return space, nbytes
