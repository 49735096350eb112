"""RMS norm against the float64 reference; a row's bits depend on that row alone."""

import numpy as np
import pytest

from ebbtide.kernels.ops import F32, KernelError
from ebbtide.kernels.reference import norm as reference
from tests.helpers.attention_kernels import compiled, isas, workspace_shape

UNIT = 2.0**-24
EPS = 1e-5
# One row and many; widths that are no multiple of a vector, of four vectors; heads as rows of 64 and 80.
SHAPES = [(1, 576), (3, 577), (1, 1), (7, 13), (300, 64), (129, 80), (33, 2048), (2, 31), (5, 96)]


def made(rows: int, columns: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(rows * 10007 + columns)
    x = rng.standard_normal((rows, columns)) * 10.0 ** rng.uniform(-3, 3, (rows, 1))
    return x.astype(np.float32), rng.uniform(0.2, 2.0, columns).astype(np.float32)


def run(x: F32, weight: F32, isa: str, threads: int = 2) -> F32:
    out = np.full_like(x, np.nan)
    with compiled(isa, threads, workspace_shape()) as ops:
        ops.rmsnorm(x, weight, EPS, out)
    return out


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_matches_the_reference(rows: int, columns: int, isa: str) -> None:
    x, weight = made(rows, columns)
    expected = np.empty_like(x)
    reference.rmsnorm(x, weight, EPS, expected)
    got = run(x, weight, isa)
    # A sum of squares is off by at most one unit per addition of a chain (all its terms are positive),
    # its root by half of that; then mean, root, inverse and two products.
    chain = columns / 16 + 8
    assert (np.abs(got - expected) <= np.abs(expected) * UNIT * (chain + 8) + 1e-37).all()


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_row_alone_has_the_same_bits(rows: int, columns: int, isa: str) -> None:
    x, weight = made(rows, columns)
    together = run(x, weight, isa, threads=3)
    for row in range(0, rows, 7):
        assert (run(x[row : row + 1], weight, isa, threads=1) == together[row]).all()


@pytest.mark.parametrize("isa", isas())
def test_out_may_be_x(isa: str) -> None:
    x, weight = made(9, 77)
    expected = run(x, weight, isa)
    with compiled(isa, 2, workspace_shape()) as ops:
        ops.rmsnorm(x, weight, EPS, x)
    assert (x == expected).all()


@pytest.mark.parametrize("isa", isas())
def test_rows_of_zeros_and_a_nan(isa: str) -> None:
    x, weight = made(3, 40)
    x[0] = 0
    x[1, 5] = np.nan
    clean = run(made(3, 40)[0], weight, isa)
    got = run(x, weight, isa)
    assert (got[0] == 0).all()
    assert np.isnan(got[1]).all()
    assert (got[2] == clean[2]).all()


@pytest.mark.parametrize("isa", isas())
def test_writes_only_its_output(isa: str) -> None:
    x, weight = made(5, 31)
    guarded = np.full(5 * 31 + 64, 7.0, np.float32)
    with compiled(isa, 1, workspace_shape()) as ops:
        ops.rmsnorm(x, weight, EPS, guarded[32 : 32 + 5 * 31].reshape(5, 31))
    assert (guarded[:32] == 7).all()
    assert (guarded[32 + 5 * 31 :] == 7).all()


def test_refuses_shapes_that_do_not_match() -> None:
    x, weight = made(3, 40)
    with compiled(isas()[-1], 1, workspace_shape()) as ops:
        with pytest.raises(KernelError, match="do not match"):
            ops.rmsnorm(x, weight[:39], EPS, x)
        with pytest.raises(KernelError, match="contiguous"):
            ops.rmsnorm(x[:, ::2], weight[::2], EPS, np.empty((3, 20), np.float32))
