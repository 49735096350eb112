"""What a kernel has to know about one matrix of a block, and how it is worked through."""

from typing import NamedTuple

from ebbtide.kernels.layout import MAX_PLANES, BlockLayout
from ebbtide.kernels.ops import KernelError

HALF_COLS = 16
"""Columns of a half line: the unit in which a product is summed (`kernels/layout.py`)."""
WORDS = 8
"""32-bit words of a half line."""
CODE_SHIFT = 149
"""The smallest positive f32 is 2^-149: an integer below 2^24, taken as the bits of an f32, is that often it.
"""
X_SHIFT = 64
"""Activations meet the codes multiplied by 2^64, so that no product is denormal (see `arrange.py`)."""
MASKS = (0x55555555, 0x33333333, 0x0F0F0F0F)
"""What the three stages of a bit transpose keep. As arguments, not constants: the compiler then takes a
stage's two ANDs and OR for the one instruction that they are (with constants it folds the inverse, and needs
two)."""


class View(NamedTuple):
    """Arguments of one matrix; offsets are bytes in the block's own address space."""

    meta: int
    strip_meta: int
    """Bytes of one strip's scales."""
    planes: tuple[int, ...]
    """Offset of every plane, `MAX_PLANES` of them; those that the format lacks repeat plane 0 and are not
    read.
    """
    plane_count: int
    zero: int
    masks: tuple[int, ...]
    factor: float
    """What a sum of products of codes and activations, as the kernels have them, is multiplied by."""


def view_of(layout: BlockLayout, index: int) -> View:
    """The arguments of matrix `index` of a block. Raises KernelError for a format with a table."""
    view = layout.views[index]
    form = view.shape.format
    if form.table:
        raise KernelError(f"no kernel on a card looks codes up in tables, as {form.name} has them")
    missing = (view.plane_offsets[0],) * (MAX_PLANES - form.planes)
    factor = 2.0 ** (CODE_SHIFT - X_SHIFT + form.planes - MAX_PLANES)
    strip_meta = view.shape.strip_meta_bytes
    return View(
        view.meta_offset, strip_meta, view.plane_offsets + missing, form.planes, form.zero, MASKS, factor
    )


class Tiling(NamedTuple):
    """How one strip is worked through; depends on K alone, since it decides the order of every sum."""

    halves: int
    """Half lines in one tile, a power of two."""
    warps: int


def tiling_for(cols: int) -> Tiling:
    """16 half lines a warp (one 16-byte load of a plane for each thread), at most 4 warps."""
    halves = 16
    while halves < 64 and halves < cols // HALF_COLS:
        halves *= 2
    return Tiling(halves, halves // 16)
