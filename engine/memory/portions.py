"""What of an expert's block is kept in fast memory at a width."""

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


NOTHING = Portion(0, 0, -1, 0)


def portion_of(layout: BlockLayout, width: int = 0) -> Portion:
    """The top `width` planes of a block; all of them for 0, and where the block has no more.

    The floor's planes lie among its scales in one extent, so a width below the floor reads that extent whole
    and saves no memory over the floor; kernels still compute with `width` planes of it.
    """
    used = min(width or layout.planes, layout.planes)
    last = max(0, used - layout.floor_planes)
    return Portion(used, layout.floor_planes + last, last, layout.pages_at_width(used))


def portions_of(layout: BlockLayout) -> tuple[Portion, ...]:
    """The portion at each width from 0 (nothing) to all planes."""
    return NOTHING, *(portion_of(layout, width) for width in range(1, layout.planes + 1))
