"""Experts against the reference: mixed formats and widths, absent and other experts, rows bit for bit."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import Activation
from ebbtide.kernels.reference import moe as reference
from ebbtide.kernels.triton.combine import combine
from tests.helpers.plane_blocks import UNIT
from tests.helpers.triton_moe import bound, experts, run
from tests.kernels.triton.conftest import Compare

WIDTHS = [8, 3, 6, 0]


@pytest.mark.parametrize(
    ("names", "dim", "d_ff", "activation"),
    [
        (("G8", "Q4_1", "Q8_0"), 96, 32, "silu"),
        (("Q4_K", "Q4_K", "Q6_K"), 256, 256, "silu"),
        (("Q3_K", "Q3_K", "Q5_K"), 256, 256, "silu"),
        (("Q5_0", "Q5_1", "Q4_0"), 32, 288, "gelu"),
    ],
)
def test_pairs(
    names: tuple[str, str, str], dim: int, d_ff: int, activation: Activation, compare: Compare
) -> None:
    pair = experts(names, dim, d_ff, WIDTHS)
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
    pair = experts(("Q4_0", "Q8_0", "Q5_0"), 32, 32, WIDTHS)
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
    pair = experts(("Q4_0", "Q4_0", "Q4_0"), 32, 32, WIDTHS)
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
