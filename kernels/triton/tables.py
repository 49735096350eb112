"""Page tables as kernels on a card read them: resolved addresses, and widths that are safe to read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.ops import HUGE_PAGE_BYTES, BlockTable, Pages


def page_addresses(pages: Pages, page_ids: NDArray[np.int32]) -> NDArray[np.int64]:
    """The address of each page, 0 where the id is negative (absent)."""
    ids = np.maximum(page_ids, 0)
    slabs, places = np.divmod(ids, pages.pages_per_slab)
    bases = pages.slab_bases.astype(np.int64)[slabs]
    step = 0 if pages.page_bytes == HUGE_PAGE_BYTES else pages.page_bytes
    return np.where(page_ids < 0, 0, bases + places.astype(np.int64) * step)


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """A `BlockTable` mirrored in a card's memory.

    Kernels trust it: a width above 0 is only ever published together with the addresses of all its pages.
    """

    layout: BlockLayout
    page_bytes: int
    """Bytes of one page, 0 where each block is one contiguous piece."""
    addresses: torch.Tensor
    """int64 [E, layout.page_count + 1]: where each page of a block lies; 0 = absent, never read."""
    widths: torch.Tensor
    """int32 [E]: planes that may be read, 0 = absent."""

    def publish(self, table: BlockTable, blocks: Sequence[int]) -> None:
        """Take over the pages and widths of `blocks` as `table` has them now.

        A width some of whose pages are absent is published as 0: kernels then report the block as absent.
        """
        rows = list(blocks)
        addresses = page_addresses(table.pages, table.page_table[rows])
        widths = [readable_width(table, row) for row in rows]
        where = torch.tensor(rows, dtype=torch.int64, device=self.addresses.device)
        self.addresses[where, : table.layout.page_count] = torch.from_numpy(addresses).to(
            self.addresses.device
        )
        self.widths[where] = torch.tensor(widths, dtype=torch.int32).to(self.widths.device)


def readable_width(table: BlockTable, block: int) -> int:
    """The committed width of a block, or 0 where one of its pages is absent."""
    width = int(table.widths[block])
    needed = table.layout.pages_at_width(width)
    return width if (table.page_table[block, :needed] >= 0).all() else 0


def device_table(table: BlockTable, device: torch.device | str) -> DeviceTable:
    """Mirror all of `table` on `device`. The table's pages must be memory that `device` can read."""
    page_bytes = 0 if table.pages.page_bytes == HUGE_PAGE_BYTES else table.pages.page_bytes
    shape = (table.blocks, table.layout.page_count + 1)  # a window also looks up the page after its own
    mirror = DeviceTable(
        table.layout,
        page_bytes,
        torch.zeros(shape, dtype=torch.int64, device=device),
        torch.zeros(shape[0], dtype=torch.int32, device=device),
    )
    mirror.publish(table, range(table.blocks))
    return mirror
