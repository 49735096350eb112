"""Many blocks of random planes on a card, more than its cache holds: made there, not sent."""

import torch

from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.triton.tables import DeviceTable
from tests.gpu.ground import Ground
from tests.gpu.timing import cache_bytes, free_bytes

CACHES = 4
"""As much as so many caches is gone through before a block is read again."""


def bytes_at(layout: BlockLayout, width: int) -> int:
    """What a product reads of a block at a width."""
    return sum(
        view.shape.meta_bytes + view.shape.plane_bytes * min(width, view.shape.format.planes)
        for view in layout.views
    )


def blocks_for(ground: Ground, *layouts: BlockLayout, least: int = 2) -> int:
    """How many blocks make reads at width 1 come from memory; fewer where the card has little of it."""
    if ground.warms:
        return least
    wanted = CACHES * cache_bytes(ground) // sum(bytes_at(layout, 1) for layout in layouts) + 1
    room = free_bytes(ground) // 3 // sum(layout.span_bytes for layout in layouts)
    return max(least, min(wanted, room))


class Bank:
    """`blocks` blocks of one layout, pages of a block one behind the other."""

    def __init__(self, ground: Ground, layout: BlockLayout, blocks: int) -> None:
        span = layout.span_bytes
        generator = torch.Generator(ground.device).manual_seed(ground.seed)
        self._memory = torch.empty((blocks, span), dtype=torch.uint8, device=ground.device)
        self._memory.random_(generator=generator)
        for view in layout.views:
            # Scales between 2^-7 and 2^-5, of either sign: no number is lost on the way.
            scales = self._memory[:, view.meta_offset : view.meta_offset + view.shape.meta_bytes]
            scales[:, 1::2] &= 0x83
            scales[:, 1::2] |= 0x20
        count, step = layout.page_count, layout.page_bytes
        starts = torch.arange(blocks, device=ground.device)[:, None] * span + self._memory.data_ptr()
        places = torch.zeros((blocks, count + 1), dtype=torch.int64, device=ground.device)
        places[:, :count] = starts + torch.arange(count, device=ground.device)[None] * step
        widths = torch.full((blocks,), layout.planes, dtype=torch.int32, device=ground.device)
        self.table = DeviceTable(layout, step, places, widths)

    def alone(self, index: int) -> DeviceTable:
        """One block as a table of its own, all of whose addresses are multiples of 16 in every case: kernels
        are compiled for that once."""
        table = self.table
        return DeviceTable(
            table.layout, table.page_bytes, table.addresses[index : index + 1], table.widths[:1]
        )

    def at_width(self, width: int) -> DeviceTable:
        """All blocks at this width."""
        self.table.widths.fill_(width)
        return self.table
