"""Rotary position embedding against the float64 reference."""

import numpy as np
import pytest

from ebbtide.kernels.ops import F32, I32, KernelError
from ebbtide.kernels.reference import rope as reference
from tests.helpers.attention_kernels import compiled, isas, workspace_shape

UNIT = 2.0**-24
POSITIONS = 97
# rows, heads, head_dim, rotated values: whole and partial heads, an odd number of pairs, several tasks, none
SHAPES = [(1, 9, 64, 64), (5, 4, 80, 32), (3, 2, 96, 6), (67, 12, 64, 64), (2, 1, 256, 128), (4, 3, 32, 0)]


def tables(pairs: int) -> tuple[F32, F32]:
    angle = np.arange(POSITIONS)[:, None] * 10000.0 ** (-np.arange(pairs) / max(pairs, 1))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def made(rows: int, heads: int, head_dim: int) -> tuple[F32, I32]:
    rng = np.random.default_rng(rows + heads)
    x = rng.standard_normal((rows, heads, head_dim)).astype(np.float32)
    return x, rng.integers(0, POSITIONS, rows).astype(np.int32)


def rotate(x: F32, pairs: int, positions: I32, interleaved: bool, isa: str, threads: int = 2) -> None:
    cos, sin = tables(pairs)
    with compiled(isa, threads, workspace_shape()) as ops:
        ops.rope(x, cos, sin, positions, interleaved)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(("rows", "heads", "head_dim", "rotated"), SHAPES)
def test_matches_the_reference(
    rows: int, heads: int, head_dim: int, rotated: int, interleaved: bool, isa: str
) -> None:
    x, positions = made(rows, heads, head_dim)
    expected, got = x.copy(), x.copy()
    reference.rope(expected, *tables(rotated // 2), positions, interleaved)
    rotate(got, rotated // 2, positions, interleaved, isa)
    # Two products and a sum, each rounded once; a product is at most the largest value of x.
    assert np.abs(got - expected).max(initial=0) <= 3 * UNIT * np.abs(x).max()
    assert (got[:, :, rotated:] == x[:, :, rotated:]).all()


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("interleaved", [True, False])
def test_a_row_alone_has_the_same_bits(interleaved: bool, isa: str) -> None:
    x, positions = made(67, 12, 64)
    together = x.copy()
    rotate(together, 32, positions, interleaved, isa, threads=3)
    for row in range(67):
        alone = x[row : row + 1].copy()
        rotate(alone, 32, positions[row : row + 1], interleaved, isa, threads=1)
        assert (alone[0] == together[row]).all()


@pytest.mark.parametrize("isa", isas())
def test_a_view_of_wider_rows_and_nothing_else_changes(isa: str) -> None:
    x, positions = made(11, 3, 64)
    fused = np.random.default_rng(1).standard_normal((11, 3 * 64 + 100)).astype(np.float32)
    fused[:, 50 : 50 + 192] = x.reshape(11, 192)
    before = fused.copy()
    rotate(fused[:, 50 : 50 + 192].reshape(11, 3, 64), 32, positions, False, isa)
    rotate(x, 32, positions, False, isa)
    assert (fused[:, 50 : 50 + 192] == x.reshape(11, 192)).all()
    assert (fused[:, :50] == before[:, :50]).all()
    assert (fused[:, 242:] == before[:, 242:]).all()


def test_conventions_by_hand() -> None:
    """A quarter turn moves the first value of a pair onto the second."""
    cos, sin = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    positions = np.zeros(1, np.int32)
    with compiled(isas()[-1], 1, workspace_shape()) as ops:
        pairs = np.array([[[1, 0, 3, 0, 9]]], np.float32)
        ops.rope(pairs, cos, sin, positions, True)
        assert pairs.tolist() == [[[0, 1, 0, 3, 9]]]
        halves = np.array([[[1, 3, 0, 0, 9]]], np.float32)
        ops.rope(halves, cos, sin, positions, False)
        assert halves.tolist() == [[[0, 0, 1, 3, 9]]]


def test_refuses_what_does_not_fit() -> None:
    x, positions = made(2, 3, 64)
    cos, sin = tables(32)
    with compiled(isas()[-1], 1, workspace_shape()) as ops:
        for bad in (POSITIONS, -1):
            with pytest.raises(KernelError, match="out of range"):
                ops.rope(x, cos, sin, np.array([0, bad], np.int32), True)
        with pytest.raises(KernelError, match="rope: x"):
            ops.rope(x, *tables(33), positions, True)
        with pytest.raises(KernelError, match="float32 heads"):
            ops.rope(x[:, ::2], cos, sin, positions, True)
