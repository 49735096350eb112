"""Blocks with tables of their own, on every instruction set, wherever pages lie."""

import numpy as np
import pytest

from ebbtide.kernels.code_mass import code_values
from ebbtide.kernels.layout import TABLE_ZERO, BlockLayout, MatrixFormat, MatrixShape, ScaleKind, block_layout
from ebbtide.kernels.ops import F32, U8, BlockTable, KernelError, Pages, WorkspaceShape
from ebbtide.kernels.reference.planes import load_view
from tests.helpers.attention_kernels import isas
from tests.helpers.plane_blocks import GuardedOutput, linear_ops, product_bound

ISAS = isas()
PAGE = 4096
COLS, ROWS = 96, (37, 20)


def own(planes: int) -> MatrixFormat:
    return MatrixFormat("own", planes, TABLE_ZERO, ScaleKind.HALF, own_tables=True)


def layout_of(planes: int, cols: int = COLS) -> BlockLayout:
    return block_layout(
        [MatrixShape(rows, cols, own(planes)) for rows in ROWS], page_bytes=PAGE, floor_planes=1
    )


def block_of(layout: BlockLayout, rng: np.random.Generator) -> tuple[U8, list[U8]]:
    """Random bytes of a block with f16 scales, and the tables u8[2 * 2^planes] of its matrices."""
    block = rng.integers(0, 256, layout.span_bytes, dtype=np.uint8)
    tables = []
    for view in layout.views:
        scales = block[view.meta_offset :][: view.shape.scale_bytes].view(np.float16)
        scales[:] = rng.uniform(0.002, 0.02, scales.size)
        found = block[view.tables_offset :][: view.shape.tables_bytes]
        for width in range(1, view.shape.format.planes + 1):
            found[1 << width : 2 << width].sort()
        tables.append(found.copy())
    return block, tables


def shuffled(layout: BlockLayout, blocks: list[U8], width: int, rng: np.random.Generator) -> BlockTable:
    """Blocks whose pages lie in any order; those beyond the width are absent."""
    count = layout.page_count
    places = rng.permutation(len(blocks) * count).astype(np.int32).reshape(len(blocks), count)
    memory = np.full(len(blocks) * count * PAGE, 0xFF, np.uint8)
    for block, numbers in zip(blocks, places, strict=True):
        for number, place in enumerate(numbers[: layout.pages_at_width(width)]):
            memory[place * PAGE : (place + 1) * PAGE] = block[number * PAGE : (number + 1) * PAGE]
    places[:, layout.pages_at_width(width) :] = -1
    pages = Pages(np.array([memory.ctypes.data], np.uint64), len(blocks) * count, PAGE)
    widths = np.full(len(blocks), width, np.uint8)
    return BlockTable(layout, pages, places, widths, {"memory": memory})


def products(isa: str, x: F32, table: BlockTable, index: int) -> F32:
    out = GuardedOutput(x.shape[0], table.layout.rows)
    with linear_ops(isa, 2, WorkspaceShape(x.shape[0], x.shape[1], 1, 0, 1, 1, 1, 1, 16)) as ops:
        ops.linear(x, one_of(table, index), out.array)
    out.check()
    return out.array


def one_of(table: BlockTable, index: int) -> BlockTable:
    kept = slice(index, index + 1)
    return BlockTable(table.layout, table.pages, table.page_table[kept].copy(), table.widths[kept].copy())


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("planes", "width"), [(p, w) for p in (3, 6, 8) for w in range(1, p + 1)])
@pytest.mark.parametrize("rows", [1, 9])
def test_products_are_those_of_the_block_s_own_entries(isa: str, planes: int, width: int, rows: int) -> None:
    rng = np.random.default_rng(10 * planes + width)
    layout = layout_of(planes)
    made = [block_of(layout, rng) for _ in range(2)]
    table = shuffled(layout, [block for block, _ in made], width, rng)
    x = rng.standard_normal((rows, COLS)).astype(np.float32)
    for index in range(2):
        weights = [load_view(table, index, view) for view in range(2)]
        out, first = products(isa, x, table, index), 0
        for one in weights:
            end = first + one.codes.shape[0]
            exact = x.astype(np.float64) @ one.dense().numpy().T
            assert (np.abs(out[:, first:end] - exact) <= product_bound(x, one)).all()
            first = end


@pytest.mark.parametrize("width", [1, 4, 6])
def test_the_reference_takes_entries_from_the_block(width: int) -> None:
    rng = np.random.default_rng(width)
    layout = layout_of(6)
    blocks = [block_of(layout, rng) for _ in range(2)]
    table = shuffled(layout, [block for block, _ in blocks], width, rng)
    for index, (block, tables) in enumerate(blocks):
        for number, view in enumerate(layout.views):
            weights = load_view(table, index, number)
            entries = tables[number][1 << width : 2 << width]
            assert np.isin(weights.codes.numpy(), entries).all() and weights.offset == TABLE_ZERO
            scales = block[view.meta_offset :][: view.shape.scale_bytes].view(np.float16)
            assert weights.scale[0, 0] == float(scales[0])


def test_tables_lie_before_the_scales_and_count_as_meta_data() -> None:
    layout = layout_of(6)
    first, second = layout.views
    assert (first.tables_offset, first.meta_offset) == (0, 128)
    assert second.tables_offset >= first.meta_offset + first.shape.scale_bytes
    assert second.meta_offset == second.tables_offset + 128
    assert first.shape.meta_bytes == first.shape.scale_bytes + 128
    plain = MatrixFormat("plain", 6, 32, ScaleKind.HALF)
    other = block_layout([MatrixShape(rows, COLS, plain) for rows in ROWS], page_bytes=PAGE, floor_planes=1)
    assert layout.data_bytes == other.data_bytes + 2 * 128
    assert [view.tables_offset for view in other.views] == [-1, -1]


@pytest.mark.parametrize("isa", ISAS)
def test_tables_that_cross_a_page_are_found(isa: str) -> None:
    """Gate's scales push up's tables of eight planes over the end of a page."""
    rng = np.random.default_rng(5)
    shapes = [MatrixShape(rows, 64, own(8)) for rows in (16 * 55, 16)]
    layout = block_layout(shapes, page_bytes=PAGE, floor_planes=1)
    at = layout.views[1].tables_offset
    assert at // PAGE != (at + 511) // PAGE
    for width in (7, 8):
        table = shuffled(layout, [block_of(layout, rng)[0]], width, rng)
        x = rng.standard_normal((1, 64)).astype(np.float32)
        weights = load_view(table, 0, 1)
        exact = x.astype(np.float64) @ weights.dense().numpy().T
        out = products(isa, x, table, 0)[:, 16 * 55 :]
        assert (np.abs(out - exact) <= product_bound(x, weights)).all()


@pytest.mark.parametrize("isa", ISAS)
def test_a_block_whose_tables_are_absent_is_refused(isa: str) -> None:
    rng = np.random.default_rng(6)
    layout = layout_of(6)
    table = shuffled(layout, [block_of(layout, rng)[0]], 6, rng)
    table.page_table[0, 0] = -1
    with pytest.raises(KernelError, match="fast memory"):
        products(isa, np.ones((1, COLS), np.float32), table, 0)


def test_what_cannot_have_own_tables_is_refused() -> None:
    for zero, kind, table in (
        (0, ScaleKind.HALF, ()),
        (TABLE_ZERO, ScaleKind.HALF_MIN, ()),
        (TABLE_ZERO, ScaleKind.K8, ()),
        (TABLE_ZERO, ScaleKind.HALF, (0, 1)),
    ):
        with pytest.raises(ValueError, match="own tables"):
            MatrixFormat("it", 1, zero, kind, table, own_tables=True)


def test_a_format_alone_does_not_know_what_its_codes_stand_for() -> None:
    with pytest.raises(KernelError, match="block to block"):
        code_values(own(6))
