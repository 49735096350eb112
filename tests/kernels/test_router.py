"""Router against the float64 reference: order, ties, weights, and logits that are not numbers."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import F32, I32, KernelError
from ebbtide.kernels.reference import router as reference
from tests.helpers.attention_kernels import compiled, isas, workspace_shape

UNIT = 2.0**-24
# rows, experts, columns, k: the smallest, odd sizes, the largest, enough work for several tasks
SHAPES = [(1, 1, 16, 1), (1, 8, 576, 2), (5, 7, 33, 7), (3, 512, 64, 16), (70, 60, 100, 4), (33, 128, 256, 8)]


def made(rows: int, experts: int, columns: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(rows + experts)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    return x, (rng.standard_normal((experts, columns)) / columns**0.5).astype(np.float32)


def run(x: F32, w: F32, top_k: int, normalise: bool, isa: str, threads: int = 2) -> tuple[I32, F32]:
    idx = np.full((len(x), top_k), -7, np.int32)
    weights = np.full((len(x), top_k), np.nan, np.float32)
    with compiled(isa, threads, workspace_shape(rows=len(x), experts=len(w))) as ops:
        ops.router(x, w, top_k, normalise, idx, weights)
    return idx, weights


def from_logits(logits: F32, top_k: int, normalise: bool, isa: str) -> tuple[I32, F32]:
    """Route rows whose logits are given: the matrix is the identity, which keeps finite values."""
    return run(logits, np.eye(logits.shape[1], dtype=np.float32), top_k, normalise, isa)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("rows", "experts", "columns", "top_k"), SHAPES)
def test_matches_the_reference(
    rows: int, experts: int, columns: int, top_k: int, normalise: bool, isa: str
) -> None:
    x, w = made(rows, experts, columns)
    idx, weights = run(x, w, top_k, normalise, isa)
    exact = torch.from_numpy(x).double() @ torch.from_numpy(w).double().T
    probabilities = torch.softmax(exact, dim=-1).numpy()
    # A logit is off by at most a chain of columns / 16 + 6 products and sums, rounded twice where there is no
    # fused multiply-add; a weight by twice that, and by the sum over the experts and a few roundings.
    slack = 2 * UNIT * (columns / 16 + 6) * (np.abs(x) @ np.abs(w).T).max()
    relative = 2 * slack + 2 * UNIT * (experts / 4 + 16)
    chosen = np.take_along_axis(probabilities, idx.astype(np.int64), axis=1)
    expected = chosen / chosen.sum(axis=1, keepdims=True) if normalise else chosen
    assert (np.abs(weights - expected) <= relative * expected).all()
    ordered = np.sort(probabilities, axis=1)[:, ::-1][:, :top_k]
    assert (np.abs(chosen - ordered) <= 2 * slack * ordered).all(), "not the largest ones"
    assert all(len(set(row)) == top_k for row in idx.tolist())


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("rows", "experts", "columns", "top_k"), SHAPES)
def test_a_row_alone_has_the_same_bits(rows: int, experts: int, columns: int, top_k: int, isa: str) -> None:
    x, w = made(rows, experts, columns)
    idx, weights = run(x, w, top_k, True, isa, threads=3)
    for row in range(0, rows, 5):
        alone = run(x[row : row + 1], w, top_k, True, isa, threads=1)
        assert (alone[0][0] == idx[row]).all()
        assert (alone[1][0] == weights[row]).all()


@pytest.mark.parametrize("isa", isas())
def test_ties_go_to_the_lower_index(isa: str) -> None:
    logits = np.array([[1, 2, 2, 0, 2, 2, 1, 2, 0], [0] * 9], np.float32)
    idx, weights = from_logits(logits, 5, True, isa)
    assert idx.tolist() == [[1, 2, 4, 5, 7], [0, 1, 2, 3, 4]]
    assert (weights == np.float32(0.2)).all()
    expected_idx, expected_weights = np.empty_like(idx), np.empty_like(weights)
    reference.router(logits, np.eye(9, dtype=np.float32), 5, True, expected_idx, expected_weights)
    assert (expected_idx == idx).all()
    assert (expected_weights == weights).all()


@pytest.mark.parametrize("isa", isas())
def test_nan_counts_as_minus_infinity(isa: str) -> None:
    """A NaN weight row makes one expert's logit NaN; a NaN input row makes all of them NaN: uniform."""
    x, w = made(3, 6, 16)
    w[2] = np.nan
    x[1, 0] = np.nan
    idx, weights = run(x, w, 6, False, isa)
    expected_idx, expected_weights = np.empty_like(idx), np.empty_like(weights)
    reference.router(x, w, 6, False, expected_idx, expected_weights)
    assert (idx == expected_idx).all()
    assert np.allclose(weights, expected_weights, rtol=1e-5, atol=0)
    assert idx[0, -1] == 2
    assert weights[0, -1] == 0
    assert idx[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert (weights[1] == np.float32(1 / 6)).all()


@pytest.mark.parametrize("isa", isas())
def test_infinite_logits_share_all_the_weight(isa: str) -> None:
    x = np.ones((1, 1), np.float32)
    w = np.array([[3], [np.inf], [-np.inf], [np.inf]], np.float32)
    idx, weights = run(x, w, 4, True, isa)
    assert idx.tolist() == [[1, 3, 0, 2]]
    assert weights.tolist() == [[0.5, 0.5, 0, 0]]


@pytest.mark.parametrize("isa", isas())
def test_exponential_is_accurate_and_falls(isa: str) -> None:
    """With logits (0, x) the ratio of the two weights is e^x, rounded by two divisions."""
    x = -np.concatenate([[0.0], np.geomspace(1e-9, 86.9, 40000), np.linspace(0, 86.9, 40000)])
    x = np.sort(x.astype(np.float32))
    _, weights = from_logits(np.stack([np.zeros_like(x), x], axis=1), 2, False, isa)
    ratio = weights[:, 1].astype(np.float64) / weights[:, 0]
    exact = np.exp(x.astype(np.float64))
    exponential_units = 2.6 if isa != "portable" else 5.2
    worst = (np.abs(ratio - exact) / exact).max() / UNIT
    assert worst <= exponential_units + 2
    assert (np.diff(ratio) >= -4 * UNIT * ratio[1:]).all()


@pytest.mark.parametrize("isa", isas())
def test_exponential_ends_in_exact_zeros(isa: str) -> None:
    x = np.array([-87.5, -88, -100, -1e6, -3e38], np.float32)
    _, weights = from_logits(np.stack([np.zeros_like(x), x], axis=1), 2, False, isa)
    assert (weights[:, 0] == 1).all()
    assert (weights[:, 1] == 0).all()


def test_refuses_what_it_cannot_do() -> None:
    x, w = made(2, 20, 16)
    with compiled(isas()[-1], 1, workspace_shape(rows=2, experts=20)) as ops:
        for top_k in (0, 17, 21):
            room = np.empty((2, top_k), np.int32), np.empty((2, top_k), np.float32)
            with pytest.raises(KernelError, match="sizes do not match"):
                ops.router(x, w, top_k, True, *room)
        room = np.empty((2, 2), np.int32), np.empty((2, 2), np.float32)
        with pytest.raises(KernelError, match="router: x"):
            ops.router(x[:, :8], w, 2, True, *room)
        ops.set_workspace(np.empty(64, np.uint8))
        with pytest.raises(KernelError, match="workspace is too small"):
            ops.router(x, w, 2, True, *room)
