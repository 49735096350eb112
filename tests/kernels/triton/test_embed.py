"""Rows of plane matrices, bit for bit as the reference has them."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable
from ebbtide.kernels.reference import linear as reference
from ebbtide.kernels.triton.embed import embed
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.formats import CARD_FORMATS
from tests.helpers.plane_blocks import dense_table, scattered_table
from tests.helpers.triton_linear import cols_for
from tests.kernels.triton.conftest import Compare

WIDTHS = [(f.name, width) for f in CARD_FORMATS.values() for width in sorted({1, f.planes - 1, f.planes})]


def run(table: BlockTable, ids: list[int], faults: int = 0) -> torch.Tensor:
    cols = table.layout.cols
    memory = torch.full((len(ids), cols + 5), torch.nan)
    out = memory[:, :cols]
    out[...] = 7.0
    fault = torch.zeros(1, dtype=torch.int32)
    embed(device_table(table, "cpu"), torch.tensor(ids, dtype=torch.int32), out, fault)
    assert fault.item() == faults and memory[:, cols:].isnan().all()
    return out


def check(table: BlockTable, ids: list[int], compare: Compare) -> None:
    expected = np.empty((len(ids), table.layout.cols), np.float32)
    reference.embed(table, np.array(ids, np.int32), expected)
    compare("embed", run(table, ids), torch.from_numpy(expected), 0.0)


@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_every_format(name: str, width: int, compare: Compare) -> None:
    cols = cols_for(FORMATS[name], 96)
    layout = block_layout([MatrixShape(37, cols, FORMATS[name])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(width), width)
    check(table, [*range(width, 37, 5), 36, 0], compare)


def test_every_row_of_a_strip_and_several_tiles(compare: Compare) -> None:
    layout = block_layout([MatrixShape(33, 544, FORMATS["Q5_1"])], page_bytes=0, floor_planes=1)
    check(dense_table(layout, np.random.default_rng(1), 5), list(range(33)), compare)


def test_pages_anywhere(compare: Compare) -> None:
    layout = block_layout([MatrixShape(50, 768, FORMATS["Q6_K"])], page_bytes=4096, floor_planes=2)
    check(scattered_table(layout, np.random.default_rng(2), [6]), [49, 0, 17, 31], compare)


def test_an_id_that_is_no_row_is_reported() -> None:
    layout = block_layout([MatrixShape(20, 64, FORMATS["Q8_0"])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(3), 8)
    out = run(table, [-1, 3, 20], faults=2)
    assert (out[0] == 7.0).all() and (out[2] == 7.0).all() and torch.equal(out[1], run(table, [3])[0])
    table.widths[0] = 0
    assert (run(table, [3], faults=1) == 7.0).all()
