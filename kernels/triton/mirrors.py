"""Block tables as kernels on a card last saw them: only what changed is sent again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.layout import MAX_PLANES, BlockLayout
from ebbtide.kernels.ops import HUGE_PAGE_BYTES, BlockTable
from ebbtide.kernels.triton.planes import MIXED
from ebbtide.kernels.triton.tables import DeviceTable, page_addresses

Empty = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
"""(shape, type) -> a new tensor in the card's memory, with any contents."""
Put = Callable[[torch.Tensor, NDArray[Any]], None]
"""(tensor on the card, values): adds a copy to the queue; the values may change afterwards."""


def mirror_bytes(layout: BlockLayout, blocks: int) -> int:
    """Memory of a mirror: page addresses (with one to spare a block, see `DeviceTable`), then widths."""
    return 8 * (blocks * (layout.page_count + 1) + -(-blocks // 2))


class Mirror:
    """A `BlockTable`'s counterpart on a card: one piece of memory, so that one copy brings it up to date."""

    def __init__(self, table: BlockTable, empty: Empty) -> None:
        blocks, pages = table.blocks, table.layout.page_count + 1
        words = mirror_bytes(table.layout, blocks) // 8
        self._source = table
        self._host = np.zeros(words, np.int64)
        self._addresses = self._host[: blocks * pages].reshape(blocks, pages)
        self._widths = self._host[blocks * pages :].view(np.int32)[:blocks]
        self._device = empty((words,), torch.int64)
        self._pages_at = np.array([table.layout.pages_at_width(width) for width in range(MAX_PLANES + 1)])
        self._is_fixed = table.pages.page_bytes == HUGE_PAGE_BYTES
        self._is_sent = False
        self.table = DeviceTable(
            table.layout,
            0 if self._is_fixed else table.pages.page_bytes,
            self._device[: blocks * pages].view(blocks, pages),
            self._device[blocks * pages :].view(torch.int32)[:blocks],
        )

    def refresh(self, blocks: NDArray[np.integer], put: Put) -> None:
        """See to it that kernels added from now on find these blocks where they are now.

        What a mirror says of all others may be out of date. Memory that is one piece never moves.
        """
        if self._is_sent and self._is_fixed:
            return
        source = self._source
        addresses = page_addresses(source.pages, source.page_table[blocks])
        widths = self._readable(blocks)
        pages = source.layout.page_count
        is_same = np.array_equal(self._addresses[blocks, :pages], addresses)
        if self._is_sent and is_same and np.array_equal(self._widths[blocks], widths):
            return
        self._addresses[blocks, :pages], self._widths[blocks] = addresses, widths
        put(self._device, self._host)
        self._is_sent = True

    def _readable(self, blocks: NDArray[np.integer]) -> NDArray[np.int32]:
        """The committed widths, 0 where a page is absent that such a width needs."""
        widths, page_table = self._source.widths[blocks], self._source.page_table[blocks]
        needed = self._pages_at[widths][:, None]
        is_whole = ((page_table >= 0) | (np.arange(page_table.shape[1]) >= needed)).all(axis=1)
        return np.where(is_whole, widths, 0).astype(np.int32)

    def width_of(self, blocks: NDArray[np.integer]) -> int:
        """What a kernel may be promised about these blocks' width (`planes.py`)."""
        planes = self._source.layout.planes
        return MAX_PLANES if bool((self._widths[blocks] == planes).all()) else int(MIXED.value)
