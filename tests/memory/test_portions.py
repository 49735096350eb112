"""What of a block is kept at one width: the fewest whole extents that hold the planes."""

import pytest

from ebbtide.engine.memory.portions import Portion, portion_of
from ebbtide.kernels.layout import FORMATS, BlockLayout, MatrixShape, block_layout

PAGE = 4096


def layout(*names: str, floor: int = 2) -> BlockLayout:
    return block_layout(
        [MatrixShape(96, 256, FORMATS[name]) for name in names], page_bytes=PAGE, floor_planes=floor
    )


def test_all_planes_are_the_whole_block() -> None:
    for names in (("Q8_0",), ("Q4_0", "Q5_0"), ("Q6_K",)):
        block = layout(*names)
        whole = Portion(block.planes, block.planes, len(block.extent_ends) - 1, block.page_count)
        assert portion_of(block) == portion_of(block, block.planes) == portion_of(block, 8) == whole
        assert whole.pages * PAGE == block.span_bytes


@pytest.mark.parametrize("width", range(2, 8))
def test_fewer_planes_are_fewer_extents(width: int) -> None:
    block = layout("Q8_0")
    part = portion_of(block, width)
    assert (part.width, part.planes, part.last_extent) == (width, width, width - 2)
    assert part.pages * PAGE == -(-block.extent_ends[width - 2] // PAGE) * PAGE
    assert part.pages < portion_of(block, width + 1).pages


def test_below_the_floor_its_planes_are_read_and_fewer_used() -> None:
    block = layout("Q8_0", floor=3)
    assert portion_of(block, 1) == Portion(1, 3, 0, block.pages_at_width(3))
    assert portion_of(block, 3) == Portion(3, 3, 0, block.pages_at_width(3))


def test_a_block_that_has_no_more_planes_is_whole() -> None:
    """Blocks of one model differ: gate and up may have 4 planes where down has 8."""
    narrow, mixed = layout("Q4_0"), layout("Q4_0", "Q8_0")
    assert portion_of(narrow, 6) == portion_of(narrow)
    assert portion_of(mixed, 6).width == 6 and portion_of(mixed, 6).pages < mixed.page_count
