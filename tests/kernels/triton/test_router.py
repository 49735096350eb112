"""Router against float64: order, ties, weights, scores that are not numbers."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.reference import router as reference
from ebbtide.kernels.triton.router import router
from tests.helpers.kernel_bounds import score_slack
from tests.helpers.plane_blocks import UNIT
from tests.kernels.triton.conftest import Compare

# rows, experts, columns, k: the smallest, odd sizes, many experts, several tiles
SHAPES = [(1, 1, 16, 1), (1, 8, 576, 2), (5, 7, 33, 7), (2, 160, 64, 8), (8, 60, 100, 4), (3, 13, 257, 5)]


def made(rows: int, experts: int, cols: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(rows + experts)
    w = rng.standard_normal((experts, cols)) / cols**0.5
    x = rng.standard_normal((rows, cols))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(w.astype(np.float32))


def run(x: torch.Tensor, w: torch.Tensor, top_k: int, normalise: bool) -> tuple[torch.Tensor, torch.Tensor]:
    idx = torch.full((len(x), top_k), -7, dtype=torch.int32)
    weights = torch.full((len(x), top_k), torch.nan)
    router(x, w, top_k, normalise, torch.full((len(x), len(w)), torch.nan), idx, weights)
    return idx, weights


def expected(
    x: torch.Tensor, w: torch.Tensor, top_k: int, normalise: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    idx = np.empty((len(x), top_k), np.int32)
    weights = np.empty((len(x), top_k), np.float32)
    reference.router(x.numpy(), w.numpy(), top_k, normalise, idx, weights)
    return torch.from_numpy(idx), torch.from_numpy(weights)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("rows", "experts", "cols", "top_k"), SHAPES)
def test_matches_the_reference(
    rows: int, experts: int, cols: int, top_k: int, normalise: bool, compare: Compare
) -> None:
    x, w = made(rows, experts, cols)
    idx, weights = run(x, w, top_k, normalise)
    exact = torch.softmax(x.double() @ w.double().T, dim=-1)
    # A weight has a few roundings more for each doubling of the experts.
    slack = score_slack(x, w)
    chosen = exact.gather(1, idx.long())
    right = chosen / chosen.sum(dim=1, keepdim=True) if normalise else chosen
    compare("router", weights, right, (2 * slack + 32 * UNIT) * right)
    best = exact.sort(dim=1, descending=True).values[:, :top_k]
    assert ((chosen - best).abs() <= 2 * slack * best).all(), "not the largest ones"
    assert all(len(set(row)) == top_k for row in idx.tolist())
    for m in range(rows):
        alone = run(x[m : m + 1], w, top_k, normalise)
        assert torch.equal(alone[0][0], idx[m]) and torch.equal(alone[1][0], weights[m])


def test_ties_go_to_the_lower_index() -> None:
    scores = torch.tensor([[1, 2, 2, 0, 2, 2, 1, 2, 0], [0] * 9], dtype=torch.float32)
    idx, weights = run(scores, torch.eye(9), 5, True)
    assert idx.tolist() == [[1, 2, 4, 5, 7], [0, 1, 2, 3, 4]]
    assert weights.eq(float(np.float32(0.2))).all()
    wanted = expected(scores, torch.eye(9), 5, True)
    assert torch.equal(wanted[0], idx) and torch.equal(wanted[1], weights)


def test_nan_counts_as_minus_infinity() -> None:
    x, w = made(3, 6, 16)
    w[2], x[1, 0] = torch.nan, torch.nan
    idx, weights = run(x, w, 6, False)
    wanted = expected(x, w, 6, False)
    assert torch.equal(wanted[0], idx) and torch.allclose(wanted[1], weights, rtol=1e-5, atol=0)
    assert idx[0, -1] == 2 and weights[0, -1] == 0
    assert idx[1].tolist() == [0, 1, 2, 3, 4, 5] and weights[1].eq(float(np.float32(1 / 6))).all()


def test_infinite_scores_share_all_the_weight() -> None:
    w = torch.tensor([[3.0], [torch.inf], [-torch.inf], [torch.inf]])
    idx, weights = run(torch.ones(1, 1), w, 4, True)
    assert idx.tolist() == [[1, 3, 0, 2]] and weights.tolist() == [[0.5, 0.5, 0, 0]]


def test_rows_of_x_may_be_apart() -> None:
    x, w = made(3, 5, 40)
    wide = torch.full((3, 47), torch.nan)
    wide[:, :40] = x
    for one, other in zip(run(wide[:, :40], w, 2, True), run(x, w, 2, True), strict=True):
        assert torch.equal(one, other)
