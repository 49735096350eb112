"""Products with plane matrices against float64: formats, widths, shapes, pages, rows bit for bit."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable, KernelError
from ebbtide.kernels.triton.linear import linear
from ebbtide.kernels.triton.planes import HIGH, LOW
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.formats import CARD_FORMATS
from tests.helpers.plane_blocks import dense_table, scattered_table
from tests.helpers.triton_linear import (
    MIXED_WIDTH,
    arranged,
    cols_for,
    exact_products,
    products,
    products_bound,
    random_rows,
)
from tests.kernels.triton.conftest import Compare

WIDTHS = [(f.name, width) for f in CARD_FORMATS.values() for width in range(1, f.planes + 1)]


def table_of(name: str, rows: int, cols: int, width: int, seed: int = 0) -> BlockTable:
    layout = block_layout([MatrixShape(rows, cols, FORMATS[name])], page_bytes=0, floor_planes=1)
    return dense_table(layout, np.random.default_rng(seed), width)


@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_every_format_and_width(name: str, width: int, compare: Compare) -> None:
    cols = cols_for(FORMATS[name], 96)
    table = table_of(name, 17, cols, width, seed=width)
    x = random_rows(np.random.default_rng(width), 1, cols)
    compare("linear", products(x, table), exact_products(x, table), products_bound(x, table))


@pytest.mark.parametrize("width", range(1, 9))
def test_what_is_known_of_the_width_changes_no_bit(width: int) -> None:
    table = table_of("G8", 16, 64, width)
    x = random_rows(np.random.default_rng(width), 1, 64)
    out = products(x, table)
    for known in (width, LOW.value if width <= 4 else HIGH.value):
        assert torch.equal(products(x, table, width=known), out), known


@pytest.mark.parametrize("promise", [6, HIGH.value, MIXED_WIDTH])
def test_a_promise_about_a_block_asks_no_more_of_a_matrix_than_it_has(promise: int, compare: Compare) -> None:
    shapes = [MatrixShape(16, 256, FORMATS["Q4_K"]), MatrixShape(16, 256, FORMATS["Q6_K"])]
    layout = block_layout(shapes, page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(3), 6)
    x = random_rows(np.random.default_rng(4), 1, 256)
    out = products(x, table, width=promise)
    compare("linear", out, exact_products(x, table), products_bound(x, table))


# N and K: one row, a row past a strip, odd strips; one group, a part of a tile, whole tiles, a tile and a
# bit.
SHAPES = [(1, 32), (17, 224), (50, 96), (16, 1024), (3, 1056), (16, 2336)]


@pytest.mark.parametrize(("rows", "cols"), SHAPES)
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0"])
def test_odd_shapes(name: str, rows: int, cols: int, compare: Compare) -> None:
    table = table_of(name, rows, cols, FORMATS[name].planes)
    x = random_rows(np.random.default_rng(cols), 2, cols)
    compare("linear", products(x, table), exact_products(x, table), products_bound(x, table))


@pytest.mark.parametrize("names", [("Q4_K", "Q6_K"), ("Q5_1", "Q4_0", "G8")])
@pytest.mark.parametrize("page_bytes", [4096, 3 * 4096])
def test_pages_anywhere_in_several_slabs(names: tuple[str, ...], page_bytes: int, compare: Compare) -> None:
    rng = np.random.default_rng(page_bytes)
    shapes = [MatrixShape(13 + 16 * i, 768, FORMATS[name]) for i, name in enumerate(names)]
    layout = block_layout(shapes, page_bytes=page_bytes, floor_planes=2)
    widths = [layout.planes, 3, 2]
    table = scattered_table(layout, rng, widths)
    for index in range(len(widths)):
        x = random_rows(rng, 1, 768)
        out = products(x, table, index)
        compare("linear", out, exact_products(x, table, index), products_bound(x, table, index))


def test_a_row_has_the_same_bits_in_any_company() -> None:
    table = table_of("Q5_K", 17, 256, 5)
    x = random_rows(np.random.default_rng(1), 11, 256)
    alone = torch.cat([products(x[i : i + 1], table) for i in range(len(x))])
    for rows in (2, 4, 8, 11):
        assert torch.equal(products(x[:rows], table), alone[:rows]), rows
    turned = torch.arange(10, -1, -1)
    assert torch.equal(products(x[turned], table), alone[turned])


def test_bias_accumulate_and_nothing_written_around() -> None:
    rng = np.random.default_rng(5)
    shapes = [MatrixShape(rows, 64, FORMATS["Q4_1"]) for rows in (24, 9)]
    table = dense_table(block_layout(shapes, page_bytes=0, floor_planes=1), rng, 4)
    x = random_rows(rng, 3, 64)
    plain = products(x, table)
    bias = torch.from_numpy(rng.standard_normal(33).astype(np.float32))
    memory = torch.full((5, 40), torch.nan)
    out = memory[1:4, 2:35]
    fault = torch.zeros(1, dtype=torch.int32)
    mirror = device_table(table, "cpu")
    linear(arranged(x), mirror, out, fault, bias=bias)
    assert torch.equal(out, plain + bias)
    linear(arranged(x), mirror, out, fault, bias=bias, accumulate=True)
    assert torch.equal(out, (plain + bias) + (plain + bias))
    out.fill_(torch.nan)
    assert memory.isnan().all()


def test_an_absent_block_is_reported_and_nothing_is_written() -> None:
    layout = block_layout([MatrixShape(17, 64, FORMATS["Q8_0"])], page_bytes=4096, floor_planes=2)
    table = scattered_table(layout, np.random.default_rng(7), [8, 2, 0])
    table.widths[1] = 8  # a width that was committed without its pages
    mirror = device_table(table, "cpu")
    out = torch.full((1, 17), 7.0)
    for index, faults in ((0, 0), (1, 1), (2, 1)):
        fault = torch.zeros(1, dtype=torch.int32)
        linear(arranged(torch.ones(1, 64)), mirror, out.fill_(7.0), fault, index=index)
        assert fault.item() == faults and bool((out == 7.0).all()) == bool(faults)


def test_a_change_is_seen_once_it_is_published() -> None:
    layout = block_layout([MatrixShape(16, 64, FORMATS["Q8_0"])], page_bytes=4096, floor_planes=2)
    table = scattered_table(layout, np.random.default_rng(8), [8, 8])
    mirror = device_table(table, "cpu")
    table.page_table[0], table.widths[0] = table.page_table[1], 3
    before, widths = mirror.addresses.clone(), mirror.widths.tolist()
    mirror.publish(table, [0])
    assert widths == [8, 8] and mirror.widths.tolist() == [3, 8]
    assert torch.equal(mirror.addresses[0], before[1]) and torch.equal(mirror.addresses[1], before[1])


@pytest.mark.parametrize("size", [1e18, 1e-12])
def test_large_and_small_activations(size: float, compare: Compare) -> None:
    table = table_of("Q8_0", 16, 64, 8)
    x = torch.from_numpy(np.random.default_rng(9).standard_normal((1, 64)).astype(np.float32)) * size
    compare("linear", products(x, table), exact_products(x, table), products_bound(x, table) + 2.0**-60)


@pytest.mark.parametrize("bad", [torch.inf, torch.nan, 3e38])
def test_a_value_out_of_range_never_gives_a_number(bad: float) -> None:
    x = torch.ones(2, 64)
    x[1, 40] = bad
    table = table_of("Q4_1", 16, 64, 4)
    out = torch.full((2, 16), 0.0)
    linear(arranged(x), device_table(table, "cpu"), out, torch.zeros(1, dtype=torch.int32), width=MIXED_WIDTH)
    assert torch.equal(out[:1], products(x[:1], table)) and not torch.isfinite(out[1]).any()


def test_a_format_with_a_table_is_refused_by_name() -> None:
    table = table_of("IQ4_NL", 16, 64, 4)
    with pytest.raises(KernelError, match="IQ4_NL"):
        products(random_rows(np.random.default_rng(1), 1, 64), table)
