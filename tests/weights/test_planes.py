"""Blocks of planes against the text of kernels/layout.py and against dequantised tensors."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from ebbtide.engine.weights.codes import U8, Codes, format_of, step_and_minimum
from ebbtide.engine.weights.convert import put_into
from ebbtide.engine.weights.decode import decode
from ebbtide.engine.weights.lines import LinePacker, pack_lines, unpack_lines
from ebbtide.engine.weights.packers import compiled_packer
from ebbtide.engine.weights.planes import dequantise, write_rows
from ebbtide.kernels.layout import (
    GROUP_COLS,
    LINE_BYTES,
    ROW_OF_PAIR,
    STRIP_ROWS,
    MatrixShape,
    MatrixView,
    ScaleKind,
    block_layout,
)
from tests.helpers.random_blocks import GROUP_TYPES, SUPER_TYPES, random_matrix, wild_matrix

QUANTISED = (*GROUP_TYPES, *SUPER_TYPES)
PACKERS = [pack_lines, *filter(None, [compiled_packer()])]
# (rows, columns): one strip exactly, one row, odd rows over several strips, the starter's two widths
SHAPES = {name: [(16, 32), (1, 576), (33, 96), (17, 1536)] for name in GROUP_TYPES}
SHAPES |= {name: [(16, 256), (1, 512), (33, 768)] for name in SUPER_TYPES}
CASES = [(name, *shape) for name in QUANTISED for shape in SHAPES[name]]


def packed(raw: U8, type_name: str, rows: int, cols: int) -> tuple[U8, MatrixView, Codes]:
    """A block of one matrix, with a page size, in two pieces."""
    shape = MatrixShape(rows, cols, format_of(type_name))
    layout = block_layout([shape], page_bytes=4096, floor_planes=2)
    block = np.full(layout.span_bytes, 0xAA, np.uint8)
    codes = decode(raw.reshape(-1), type_name, rows, cols)
    cut = STRIP_ROWS if rows > STRIP_ROWS else rows
    first = decode(raw[:cut].reshape(-1), type_name, cut, cols)
    write_rows(put_into(block), layout.views[0], 0, first)
    if cut < rows:
        rest = decode(raw[cut:].reshape(-1), type_name, rows - cut, cols)
        write_rows(put_into(block), layout.views[0], cut, rest)
    return block, layout.views[0], codes


@pytest.mark.parametrize(("type_name", "rows", "cols"), CASES)
@pytest.mark.parametrize("wild", [False, True], ids=["normal weights", "any bits"])
def test_full_width_equals_the_dequantised_tensor(type_name: str, rows: int, cols: int, wild: bool) -> None:
    rng = np.random.default_rng(2)
    raw = wild_matrix(rng, type_name, rows, cols) if wild else random_matrix(rng, type_name, rows, cols, 0.1)
    block, view, _ = packed(raw, type_name, rows, cols)
    expected = quants.dequantize(raw, GGMLQuantizationType[type_name])
    np.testing.assert_array_equal(dequantise(block, view).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("type_name", "rows", "cols"), CASES)
def test_some_rows_equal_the_same_rows_of_all(type_name: str, rows: int, cols: int) -> None:
    raw = wild_matrix(np.random.default_rng(3), type_name, rows, cols)
    block, view, _ = packed(raw, type_name, rows, cols)
    first = rows // 2
    some = dequantise(block, view, first_row=first, rows=1)
    np.testing.assert_array_equal(some, dequantise(block, view)[first : first + 1])


@pytest.mark.parametrize("type_name", [name for name in QUANTISED if not format_of(name).table])
def test_narrow_widths_follow_the_midpoint_rule(type_name: str) -> None:
    rows, cols = 19, 512
    raw = random_matrix(np.random.default_rng(4), type_name, rows, cols, 0.1)
    block, view, codes = packed(raw, type_name, rows, cols)
    step, minimum = affine(raw, type_name, codes)
    for width in range(1, codes.format.planes + 1):
        dropped = codes.format.planes - width
        kept = (codes.codes >> dropped).astype(np.float64) * 2**dropped + (2**dropped - 1) / 2
        expected = step * (kept - codes.format.zero) + minimum
        np.testing.assert_allclose(dequantise(block, view, width), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("type_name", "means"),
    [
        ("IQ4_NL", {3: [-116, -74, -42, -16, 7, 32, 61, 101], 2: [-95, -29, 19, 81], 1: [-62, 50]}),
        ("IQ4_XS", {3: [-116, -74, -42, -16, 7, 32, 61, 101], 2: [-95, -29, 19, 81], 1: [-62, 50]}),
        ("MXFP4", {3: [-80, -40, -20, -4, 4, 20, 40, 80], 2: [-60, -12, 12, 60], 1: [-36, 36]}),
    ],
)
def test_narrow_widths_of_a_table_are_means(type_name: str, means: dict[int, list[int]]) -> None:
    """Of ggml's values (MXFP4: 8 times those), in pairs, fours and eights: worked out by hand."""
    rows, cols = 19, 512
    raw = random_matrix(np.random.default_rng(4), type_name, rows, cols, 0.1)
    block, view, codes = packed(raw, type_name, rows, cols)
    step, _ = step_and_minimum(codes.format, codes.scales)
    for width, table in means.items():
        values = np.array(table, np.float32)[codes.codes >> (4 - width)]
        np.testing.assert_array_equal(dequantise(block, view, width), np.repeat(step, 32, axis=1) * values)


def affine(raw: U8, type_name: str, codes: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(step, minimum) of every weight, from ggml's values alone: w = step * (code - zero) + minimum."""
    weights = quants.dequantize(raw, GGMLQuantizationType[type_name]).astype(np.float64)
    rows, cols = weights.shape
    shape = (rows, cols // codes.format.scale_cols, codes.format.scale_cols)
    w, c = weights.reshape(shape), codes.codes.astype(np.float64).reshape(shape)
    low, high = c.argmin(axis=2, keepdims=True), c.argmax(axis=2, keepdims=True)
    rise = np.take_along_axis(w, high, 2) - np.take_along_axis(w, low, 2)
    run = np.take_along_axis(c, high, 2) - np.take_along_axis(c, low, 2)
    step = rise / run
    minimum = np.take_along_axis(w, low, 2) - step * (np.take_along_axis(c, low, 2) - codes.format.zero)
    return tuple(np.broadcast_to(a, shape).reshape(rows, cols) for a in (step, minimum))  # type: ignore[return-value]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize(("rows", "cols", "planes"), [(16, 32, 8), (32, 96, 4), (48, 576, 5), (16, 256, 1)])
def test_every_bit_lies_where_the_layout_says(packer: LinePacker, rows: int, cols: int, planes: int) -> None:
    codes = np.random.default_rng(5).integers(0, 1 << planes, (rows, cols), dtype=np.uint8)
    lines = np.empty((planes, rows * cols // 8), np.uint8)
    packer(codes, planes, lines)
    groups = cols // GROUP_COLS
    for row in range(rows):
        for col in range(cols):
            strip, group, half, inside = row // 16, col // 32, col % 32 // 16, col % 16
            byte = 2 * ROW_OF_PAIR.index(row % 16) + (inside & 1)
            at = (strip * groups + group) * LINE_BYTES + 32 * half + byte
            bits = [int(lines[plane, at]) >> (inside // 2) & 1 for plane in range(planes)]
            assert int("".join(map(str, bits)), 2) == codes[row, col]
    np.testing.assert_array_equal(unpack_lines(list(lines), rows, cols), codes)


@pytest.mark.parametrize("type_name", QUANTISED)
def test_scales_lie_where_the_layout_says(type_name: str) -> None:
    rows, cols = 32, 512
    raw = wild_matrix(np.random.default_rng(6), type_name, rows, cols)
    block, view, codes = packed(raw, type_name, rows, cols)
    scales, kind = codes.scales, codes.format.kind
    d, m = scales.d.view(np.uint16), scales.m.view(np.uint16)
    for row in range(rows):
        r, strip = row % 16, block[view.meta_offset + row // 16 * view.shape.strip_meta_bytes :]
        for group in range(cols // 32):
            if kind is ScaleKind.HALF:
                assert half(strip, 32 * group + 2 * r) == d[row, group]
            elif kind is ScaleKind.E8:
                assert strip[16 * group + r] == scales.sc[row, group]
            elif kind is ScaleKind.HALF_MIN:
                assert half(strip, 64 * group + 2 * r) == d[row, group]
                assert half(strip, 64 * group + 32 + 2 * r) == m[row, group]
            elif kind is ScaleKind.K6:
                base = 256 * (group // 8)
                assert half(strip, base + 2 * r) == d[row, group // 8]
                assert half(strip, base + 32 + 2 * r) == m[row, group // 8]
                sub = strip[base + 64 + 24 * (group % 8) :]
                assert six_bits(sub[:12], r) == scales.sc[row, group]
                assert six_bits(sub[12:24], r) == scales.mn[row, group]
            elif kind is ScaleKind.S6:
                base = 128 * (group // 8)
                assert half(strip, base + 2 * r) == d[row, group // 8]
                assert six_bits(strip[base + 32 + 12 * (group % 8) :], r) == scales.sc[row, group]
            else:
                base = 288 * (group // 8)
                assert half(strip, base + 2 * r) == d[row, group // 8]
                for part in (0, 1):
                    at = base + 32 + 16 * (2 * (group % 8) + part) + r
                    assert strip[at] == scales.sc[row, 2 * group + part]


def half(data: U8, at: int) -> int:
    return int(data[at]) | int(data[at + 1]) << 8


def six_bits(data: U8, row: int) -> int:
    low = int(data[row // 2]) >> 4 * (row % 2) & 15
    return low | (int(data[8 + row // 4]) >> 2 * (row % 4) & 3) << 4


def test_padding_rows_have_no_weight() -> None:
    raw = random_matrix(np.random.default_rng(7), "Q4_0", 5, 64, 0.1)
    block, view, _ = packed(raw, "Q4_0", 5, 64)
    padded = MatrixView(MatrixShape(16, 64, view.shape.format), view.meta_offset, view.plane_offsets)
    assert not dequantise(block, padded)[5:].any()


def test_nothing_is_written_outside_the_matrix() -> None:
    raw = random_matrix(np.random.default_rng(8), "Q4_1", 40, 96, 0.1)
    block, view, _ = packed(raw, "Q4_1", 40, 96)
    touched = np.zeros(block.size, bool)
    touched[view.meta_offset : view.meta_offset + view.shape.meta_bytes] = True
    for offset in view.plane_offsets:
        touched[offset : offset + view.shape.plane_bytes] = True
    assert (block[~touched] == 0xAA).all()


def test_width_zero_is_refused() -> None:
    raw = random_matrix(np.random.default_rng(9), "Q8_0", 16, 32, 0.1)
    block, view, _ = packed(raw, "Q8_0", 16, 32)
    with pytest.raises(ValueError, match="width 0"):
        dequantise(block, view, 0)
