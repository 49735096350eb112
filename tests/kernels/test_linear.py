"""Products with plane matrices: against float64, bit for bit against the written-down numbers, row by row."""

import numpy as np
import pytest

from ebbtide.kernels.layout import MatrixFormat, MatrixShape, block_layout
from ebbtide.kernels.ops import F32, BlockTable, KernelError, WorkspaceShape
from ebbtide.kernels.reference import linear as reference
from tests.helpers.attention_kernels import isas
from tests.helpers.formats import KERNEL_FORMATS
from tests.helpers.linear_emulation import can_emulate, emulate
from tests.helpers.plane_blocks import (
    UNIT,
    GuardedOutput,
    dense_table,
    linear_ops,
    product_bound,
    scattered_table,
    weights_of,
)

WIDTHS = [(f.name, width) for f in KERNEL_FORMATS.values() for width in range(1, f.planes + 1)]
ISAS = isas()


def shape_for(rows: int, cols: int, experts: int = 0) -> WorkspaceShape:
    return WorkspaceShape(rows, cols, 1, experts, 1, 1, 1, 1, 16)


def random_x(rng: np.random.Generator, rows: int, cols: int) -> F32:
    """Rows of very different sizes, with a group of zeros and a peak where there is room."""
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    x *= rng.uniform(0.01, 100, (rows, 1)).astype(np.float32)
    x[0, :32] = 0
    x[-1, -1] = 40 * np.abs(x[-1]).max()
    return x


def cols_for(form: MatrixFormat, wished: int) -> int:
    return -(-wished // form.col_multiple) * form.col_multiple


def run(isa: str, threads: int, x: F32, table: BlockTable) -> F32:
    out = GuardedOutput(x.shape[0], table.layout.rows)
    with linear_ops(isa, threads, shape_for(*x.shape)) as ops:
        ops.linear(x, table, out.array)
    out.check()
    return out.array


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_within_the_bound_of_int16_activations(isa: str, name: str, width: int) -> None:
    rng = np.random.default_rng(width)
    form = KERNEL_FORMATS[name]
    cols = cols_for(form, 96)
    table = dense_table(block_layout([MatrixShape(37, cols, form)], page_bytes=0, floor_planes=1), rng, width)
    x = random_x(rng, 9, cols)
    out = run(isa, 2, x, table)
    (weights,) = weights_of(table)
    exact = x.astype(np.float64) @ weights.dense().numpy().T
    assert (np.abs(out - exact) <= product_bound(x, weights)).all()


@pytest.mark.skipif(not can_emulate(), reason="needs a long double of 80 bits")
@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa != "portable"])
@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_bits_are_those_of_the_written_order(isa: str, name: str, width: int) -> None:
    rng = np.random.default_rng(100 + width)
    form = KERNEL_FORMATS[name]
    cols = cols_for(form, 160)
    table = dense_table(block_layout([MatrixShape(16, cols, form)], page_bytes=0, floor_planes=1), rng, width)
    x = random_x(rng, 7, cols)
    expected = emulate(x, weights_of(table)[0], form)
    assert run(isa, 1, x, table).tobytes() == expected.tobytes()
    assert run(isa, 1, x[3:4], table).tobytes() == expected[3:4].tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("name", "cols"), [*(("Q8_0", n) for n in (32, 576, 1536, 2048)), ("TABLE_8", 1536)])
def test_a_row_has_the_same_bits_in_any_company(isa: str, name: str, cols: int) -> None:
    rng = np.random.default_rng(cols)
    layout = block_layout([MatrixShape(50, cols, KERNEL_FORMATS[name])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, rng, 8)
    x = random_x(rng, 256, cols)
    alone = np.concatenate([run(isa, 1, x[i : i + 1], table) for i in range(17)])
    for rows in (2, 3, 4, 5, 6, 7, 8, 9, 17, 64, 256):
        for threads in (1, 2, 3):
            out = run(isa, threads, x[:rows], table)
            assert out[:17].tobytes() == alone[:rows].tobytes(), (rows, threads)
    shuffled = rng.permutation(17)
    assert run(isa, 2, x[shuffled], table).tobytes() == alone[shuffled].tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_a_tile_of_rows_has_the_bits_of_each_alone(isa: str, name: str, width: int) -> None:
    """All formats and widths; 16 rows and 3 more, which is a full tile of a matrix unit and a part of one."""
    rng = np.random.default_rng(300 + width)
    form = KERNEL_FORMATS[name]
    layout = block_layout([MatrixShape(40, cols_for(form, 1100), form)], page_bytes=4096, floor_planes=1)
    table = scattered_table(layout, rng, [width])
    x = random_x(rng, 19, layout.cols)
    x[4] = np.abs(x[4]).max()  # the largest activation there is, in every column
    x[5] = -x[4]
    out = run(isa, 2, x, table)
    for row in (0, 4, 5, 15, 16, 18):
        assert run(isa, 1, x[row : row + 1], table).tobytes() == out[row : row + 1].tobytes(), row


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("page_bytes", [4096, 3 * 4096, 7 * 4096])
@pytest.mark.parametrize(
    "names", [("Q8_0",), ("Q4_K", "Q6_K"), ("Q5_1", "Q4_0", "G8"), ("IQ4_NL", "TABLE_8", "IQ4_XS")]
)
def test_pages_anywhere_give_the_bits_of_one_piece(isa: str, page_bytes: int, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(page_bytes)
    shapes = [MatrixShape(45 + 16 * i, 768, KERNEL_FORMATS[name]) for i, name in enumerate(names)]
    layout = block_layout(shapes, page_bytes=page_bytes, floor_planes=2)
    table = scattered_table(layout, rng, [layout.planes, 3, 2])
    for index, width in enumerate((layout.planes, 3, 2)):
        for rows in (1, 7):
            x = random_x(rng, rows, 768)
            out = GuardedOutput(rows, layout.rows)
            with linear_ops(isa, 2, shape_for(rows, 768)) as ops:
                ops.linear(x, table, out.array, index=index)
            out.check()
            exact = x.astype(np.float64) @ reference.dense_block(table, index).numpy().T
            bound = np.concatenate([product_bound(x, w) for w in weights_of(table, index)], axis=1)
            assert (np.abs(out.array - exact) <= bound).all(), (index, width, rows)


@pytest.mark.parametrize("isa", ISAS)
def test_strides_bias_and_accumulate(isa: str) -> None:
    rng = np.random.default_rng(5)
    shapes = [MatrixShape(rows, 64, KERNEL_FORMATS["Q4_1"]) for rows in (24, 8)]
    layout = block_layout(shapes, page_bytes=0, floor_planes=1)
    table = dense_table(layout, rng, 4)
    wide = rng.standard_normal((5, 100)).astype(np.float32)
    bias = rng.standard_normal(32).astype(np.float32)
    plain = run(isa, 1, np.ascontiguousarray(wide[:, :64]), table)
    out = GuardedOutput(5, 32, gap=9)
    with linear_ops(isa, 2, shape_for(5, 64)) as ops:
        ops.linear(wide[:, :64], table, out.array, bias=bias)
        assert out.array.tobytes() == (plain + bias).tobytes()
        ops.linear(wide[:, :64], table, out.array, bias=bias, accumulate=True)
    assert out.array.tobytes() == ((plain + bias) + (plain + bias)).tobytes()
    out.check()


@pytest.mark.parametrize("isa", ISAS)
def test_zeros_and_huge_values(isa: str) -> None:
    rng = np.random.default_rng(6)
    layout = block_layout([MatrixShape(16, 64, KERNEL_FORMATS["Q8_0"])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, rng, 8)
    x = np.zeros((3, 64), np.float32)
    x[1] = 1e30
    x[2, 5] = 1e-38  # its step is a denormal number
    out = run(isa, 1, x, table)
    assert (out[0] == 0).all() and np.isfinite(out).all()
    ones = weights_of(table)[0].dense().numpy().sum(axis=1)
    assert np.allclose(out[1] / 1e30, ones, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("isa", ISAS)
def test_refuses_what_it_cannot_compute(isa: str) -> None:
    rng = np.random.default_rng(7)
    layout = block_layout([MatrixShape(16, 64, KERNEL_FORMATS["Q8_0"])], page_bytes=4096, floor_planes=2)
    table = scattered_table(layout, rng, [8, 2, 0])
    x, out = np.ones((1, 64), np.float32), np.zeros((1, 16), np.float32)
    with linear_ops(isa, 1, shape_for(1, 64)) as ops:
        with pytest.raises(KernelError, match="not in fast memory"):
            ops.linear(x, table, out, index=2)
        with pytest.raises(KernelError, match="out of range"):
            ops.linear(x, table, out, index=3)
        table.widths[1] = 8  # a width that was committed without its pages
        with pytest.raises(KernelError, match="not in fast memory"):
            ops.linear(x, table, out, index=1)
        with pytest.raises(KernelError, match="linear"):
            ops.linear(x[:, :32], table, out)
        ops.set_workspace(np.zeros(64, np.uint8))
        with pytest.raises(KernelError, match="workspace"):
            ops.linear(x, table, out)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_embedding_rows_are_the_dequantised_weights(isa: str, name: str, width: int) -> None:
    rng = np.random.default_rng(200 + width)
    form = KERNEL_FORMATS[name]
    cols = cols_for(form, 96)
    layout = block_layout([MatrixShape(40, cols, form)], page_bytes=4096, floor_planes=width)
    table = scattered_table(layout, rng, [width])
    ids = np.array([39, 0, 17, 17, 8, 31], np.int32)
    out = GuardedOutput(len(ids), cols)
    with linear_ops(isa, 2, shape_for(1, cols)) as ops:
        ops.embed(table, ids, out.array)
        with pytest.raises(KernelError, match="out of range"):
            ops.embed(table, np.array([40], np.int32), out.array[:1])
    out.check()
    expected = np.zeros_like(out.array)
    reference.embed(table, ids, expected)
    assert (np.abs(out.array - expected) <= 4 * UNIT * np.abs(expected).max()).all()
    if width == form.planes:
        assert np.array_equal(out.array, expected)
