"""Codes into planes and back, and the order of the bits as kernels/layout.py writes it down."""

import numpy as np
import pytest

from ebbtide.kernels.cpu.planes import pack_planes
from ebbtide.kernels.layout import LINE_BYTES, ROW_OF_PAIR
from ebbtide.kernels.ops import U8, KernelError
from ebbtide.kernels.reference.planes import unpack_codes


def planes_of(codes: U8, planes: int) -> list[U8]:
    outs = [np.full(codes.size // 8 + 64, 0xA5, np.uint8) for _ in range(planes)]
    pack_planes(codes, planes, [out[:-64] for out in outs])
    assert all((out[-64:] == 0xA5).all() for out in outs)
    return [out[:-64] for out in outs]


@pytest.mark.parametrize("planes", range(1, 9))
@pytest.mark.parametrize(("strips", "groups"), [(1, 1), (3, 18), (2, 5)])
def test_packing_is_undone_by_the_reference(planes: int, strips: int, groups: int) -> None:
    rng = np.random.default_rng(planes)
    codes = rng.integers(0, 1 << planes, (strips * 16, groups * 32), dtype=np.uint8)
    packed = planes_of(codes, planes)
    assert np.array_equal(unpack_codes(packed, strips, groups), codes)
    for width in range(1, planes):  # the first planes are the narrower codes
        assert np.array_equal(unpack_codes(packed[:width], strips, groups), codes >> (planes - width))


def test_one_bit_lies_where_the_layout_says() -> None:
    for row, col in ((0, 0), (5, 1), (9, 14), (15, 31), (4, 16), (8, 2)):
        codes = np.zeros((32, 64), np.uint8)
        codes[16 + row, 32 + col] = 0b100
        planes = planes_of(codes, 3)
        half, within = divmod(col, 16)
        byte = 32 * half + 2 * ROW_OF_PAIR.index(row) + (within & 1)
        line = 1 * 2 + 1  # strip 1, group 1
        expected = np.zeros(codes.size // 8, np.uint8)
        expected[line * LINE_BYTES + byte] = 1 << (within >> 1)
        assert np.array_equal(planes[0], expected)
        assert not planes[1].any() and not planes[2].any()


def test_refuses_other_sizes() -> None:
    codes = np.zeros((16, 32), np.uint8)
    outs = [np.zeros(64, np.uint8)] * 2
    for bad, planes, targets in (
        (codes[:8], 2, outs),
        (codes[:, :16], 2, outs),
        (codes, 3, outs),
        (codes, 2, [np.zeros(63, np.uint8)] * 2),
    ):
        with pytest.raises(KernelError, match="pack_planes"):
            pack_planes(bad, planes, targets)
