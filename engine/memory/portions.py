"""What of an expert's block is kept in fast memory when all experts are used at one width."""

from typing import NamedTuple

from ebbtide.kernels.layout import BlockLayout


class Portion(NamedTuple):
    """Whole extents of a block, from its first on."""

    width: int
    """Planes that kernels compute with."""
    planes: int
    """Planes that its pages hold: more than `width` where the floor extent has more."""
    last_extent: int
    pages: int


def portion_of(layout: BlockLayout, width: int = 0) -> Portion:
    """The top `width` planes of a block; all of them for 0, and where the block has no more.

    The floor's planes lie among its scales in one extent, so a width below the floor reads that extent whole
    and saves no memory over the floor; kernels still compute with `width` planes of it.
    """
    used = min(width or layout.planes, layout.planes)
    last = max(0, used - layout.floor_planes)
    return Portion(used, layout.floor_planes + last, last, layout.pages_at_width(used))
