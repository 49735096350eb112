"""Experts against the reference: mixed formats and widths, absent and other experts, rows bit for bit."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import Activation, BlockTable
from ebbtide.kernels.reference import moe as reference
from ebbtide.kernels.triton.arrange import arranged_shape
from ebbtide.kernels.triton.combine import combine
from ebbtide.kernels.triton.moe import moe
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.plane_blocks import UNIT, scattered_table, weights_of
from tests.helpers.triton_linear import arranged, magnitude
from tests.kernels.triton.conftest import Compare

WIDTHS = [8, 3, 6, 0]


def tables(
    names: tuple[str, str, str], dim: int, d_ff: int, widths: list[int]
) -> tuple[BlockTable, BlockTable]:
    rng = np.random.default_rng(dim)
    shapes = [MatrixShape(d_ff, dim, FORMATS[name]) for name in names[:2]]
    gate_up = block_layout(shapes, page_bytes=4096, floor_planes=2)
    down = block_layout([MatrixShape(dim, d_ff, FORMATS[names[2]])], page_bytes=4096, floor_planes=2)
    return scattered_table(gate_up, rng, widths), scattered_table(down, rng, widths)


def run(
    x: torch.Tensor,
    idx: torch.Tensor,
    chosen: torch.Tensor,
    pair: tuple[BlockTable, BlockTable],
    activation: Activation = "silu",
    faults: int = 0,
) -> torch.Tensor:
    gate_up, down = pair
    rows, top_k = idx.shape
    out = torch.full((rows, top_k, down.layout.rows), 7.0)
    hidden = torch.full(arranged_shape(rows * top_k, down.layout.cols), torch.nan)
    fault = torch.zeros(1, dtype=torch.int32)
    mirrors = device_table(gate_up, "cpu"), device_table(down, "cpu")
    moe(arranged(x), idx, chosen, *mirrors, hidden, out, fault, activation)
    assert fault.item() == faults
    return out


def bound(x: torch.Tensor, expert: int, pair: tuple[BlockTable, BlockTable]) -> torch.Tensor:
    """Largest |kernel - exact| for one row: gate and up are each off by what `products_bound` says, their
    product by both relative to the other's size (the activations have slopes below 1.2), and `down` passes
    this on."""
    gate, up = weights_of(pair[0], expert)
    (down,) = weights_of(pair[1], expert)
    roundings = 16 + 8 + x.shape[-1] // 256 + 64
    values = [(w.dense() @ x.double()).abs() for w in (gate, up)]
    errors = [roundings * UNIT * (magnitude(w) @ x.abs().double()) for w in (gate, up)]
    product = (
        1.2 * errors[0] * values[1] + (values[0] + errors[0]) * errors[1] + 16 * UNIT * values[0] * values[1]
    )
    return down.dense().abs() @ product + roundings * UNIT * (magnitude(down) @ (values[0] * values[1]))


@pytest.mark.parametrize(
    ("names", "dim", "d_ff", "activation"),
    [
        (("G8", "Q4_1", "Q8_0"), 96, 32, "silu"),
        (("Q4_K", "Q4_K", "Q6_K"), 256, 256, "silu"),
        (("Q5_0", "Q5_1", "Q4_0"), 32, 288, "gelu"),
    ],
)
def test_pairs(
    names: tuple[str, str, str], dim: int, d_ff: int, activation: Activation, compare: Compare
) -> None:
    pair = tables(names, dim, d_ff, WIDTHS)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2, dim)).astype(np.float32))
    idx = torch.tensor([[1, 0], [2, 1]], dtype=torch.int32)
    chosen = torch.tensor([1, 1, 0, 1], dtype=torch.uint8)
    out = run(x, idx, chosen, pair, activation)
    exact = np.full(out.shape, 7.0, np.float32)
    reference.moe(x.numpy(), idx.numpy(), chosen.numpy(), *pair, exact, activation)
    assert (out[1, 0] == 7.0).all()
    for m, j in ((0, 0), (0, 1), (1, 1)):
        limit = bound(x[m], int(idx[m, j]), pair)
        compare(
            "moe",
            out[m, j],
            torch.from_numpy(exact[m, j]),
            limit + UNIT * torch.from_numpy(np.abs(exact[m, j])),
        )


def test_a_pair_has_the_same_bits_in_any_company() -> None:
    pair = tables(("Q4_0", "Q8_0", "Q5_0"), 32, 32, WIDTHS)
    x = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 32)).astype(np.float32))
    idx = torch.tensor([[0, 1], [1, 2]], dtype=torch.int32)
    chosen = torch.ones(4, dtype=torch.uint8)
    out = run(x, idx, chosen, pair)
    for m in range(2):
        assert torch.equal(run(x[m : m + 1], idx[m : m + 1], chosen, pair), out[m : m + 1])
    turned = run(x.flip(0), idx.flip(0, 1), chosen, pair)
    assert torch.equal(turned, out.flip(0, 1))
    for expert in range(3):  # one group of experts at a time
        only = torch.zeros(4, dtype=torch.uint8)
        only[expert] = 1
        part = run(x, idx, only, pair)
        assert torch.equal(part, torch.where((idx == expert)[..., None], out, torch.tensor(7.0)))


def test_an_absent_expert_is_reported_for_each_pair() -> None:
    pair = tables(("Q4_0", "Q4_0", "Q4_0"), 32, 32, WIDTHS)
    idx = torch.tensor([[3, 0], [2, 3]], dtype=torch.int32)
    out = run(torch.ones(2, 32), idx, torch.ones(4, dtype=torch.uint8), pair, faults=2)
    assert (out[0, 0] == 7.0).all() and (out[1, 1] == 7.0).all() and (out[0, 1] != 7.0).any()
    pair[1].page_table[2] = -1  # only its second block is gone
    out = run(torch.ones(2, 32), idx, torch.ones(4, dtype=torch.uint8), pair, faults=3)
    assert (out[1] == 7.0).all()


@pytest.mark.parametrize(("rows", "top_k", "cols"), [(1, 1, 1), (3, 2, 37), (2, 8, 300)])
def test_combine_adds_in_order(rows: int, top_k: int, cols: int, compare: Compare) -> None:
    rng = np.random.default_rng(cols)
    values = rng.standard_normal((rows, top_k, cols)).astype(np.float32)
    weights = rng.random((rows, top_k)).astype(np.float32)
    memory = torch.full((rows, cols + 3), torch.nan)
    out = memory[:, :cols]
    out[...] = torch.from_numpy(rng.standard_normal((rows, cols)).astype(np.float32))
    expected = out.numpy().copy()
    reference.combine(values, weights, expected)
    combine(torch.from_numpy(values), torch.from_numpy(weights), out)
    compare("combine", out.clone(), torch.from_numpy(expected), 1e-30)
    assert memory[:, cols:].isnan().all()
