"""What of an expert's block is kept in fast memory at a width."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.layout import MAX_PLANES, BlockLayout

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]


class Portion(NamedTuple):
    """Whole extents of a block, from its first on."""

    width: int
    """Planes that kernels compute with."""
    planes: int
    """Planes that its pages hold: more than `width` where the floor extent has more."""
    last_extent: int
    pages: int


NOTHING = Portion(0, 0, -1, 0)


def portion_of(layout: BlockLayout, width: int = 0) -> Portion:
    """The top `width` planes of a block; all of them for 0, and where the block has no more.

    The floor's planes lie among its scales in one extent, so a width below the floor reads that extent whole
    and saves no memory over the floor; kernels still compute with `width` planes of it.
    """
    used = min(width or layout.planes, layout.planes)
    last = max(0, used - layout.floor_planes)
    return Portion(used, layout.floor_planes + last, last, layout.pages_at_width(used))


class Portions:
    """The portions of all blocks at all widths, to be looked up one by one or for whole arrays of widths.

    `layouts`: gate_up and down of each layer.
    """

    def __init__(self, layouts: Sequence[tuple[BlockLayout, BlockLayout]]) -> None:
        self.most = np.array([[[layout.planes] for layout in pair] for pair in layouts], np.uint8)
        """Planes of the blocks, u8[layers, 2, 1]."""
        self._portions = [
            [[NOTHING, *(portion_of(layout, width) for width in range(1, MAX_PLANES + 1))] for layout in pair]
            for pair in layouts
        ]
        every = np.array(self._portions, np.int64).reshape(len(layouts), 2, MAX_PLANES + 1, len(NOTHING))
        self._pages = np.ascontiguousarray(every[..., Portion._fields.index("pages")])
        self._planes = every[..., Portion._fields.index("planes")].astype(np.uint8)

    def at(self, layer: int, kind: int, width: int) -> Portion:
        """The portion of a block of this layer and kind; nothing at width 0."""
        return self._portions[layer][kind][width]

    def pages(self, widths: U8) -> I64:
        """Pages of each block at `widths` u8[layers, 2, experts]; the same shape."""
        pages: I64 = np.take_along_axis(self._pages, widths.astype(np.int64), axis=2)
        return pages

    def planes(self, widths: U8) -> U8:
        """Planes that those pages hold."""
        planes: U8 = np.take_along_axis(self._planes, widths.astype(np.int64), axis=2)
        return planes

    def pages_in(self, layer: int, kind: int, widths: U8) -> I64:
        """The same of some blocks of one layer and kind, i64[n]."""
        pages: I64 = self._pages[layer, kind, widths]
        return pages
