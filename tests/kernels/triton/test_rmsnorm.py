"""RMS norm of rows and of heads against float64; a row's bits depend on that row alone."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.reference import norm as reference
from ebbtide.kernels.triton.rmsnorm import rmsnorm, rmsnorm_heads
from tests.helpers.kernel_bounds import rmsnorm_bound
from tests.kernels.triton.conftest import Compare

EPS = 1e-5


def made(rows: int, cols: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(rows * 10007 + cols)
    x = rng.standard_normal((rows, cols)) * 10.0 ** rng.uniform(-3, 3, (rows, 1))
    weight = rng.uniform(0.2, 2.0, cols)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(weight.astype(np.float32))


def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x, torch.nan)
    rmsnorm(x, weight, EPS, out)
    return out


def exact(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    out = np.empty(x.shape, np.float32)
    reference.rmsnorm(x.numpy(), weight.numpy(), EPS, out)
    return torch.from_numpy(out)


# One value; primes; whole tiles; a tile and a bit; several tiles.
@pytest.mark.parametrize("cols", [1, 13, 64, 577, 1024, 1031, 2048])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_rows(rows: int, cols: int, compare: Compare) -> None:
    x, weight = made(rows, cols)
    expected = exact(x, weight)
    out = run(x, weight)
    compare("rmsnorm", out, expected, rmsnorm_bound(expected))
    for m in range(rows):
        assert torch.equal(run(x[m : m + 1], weight), out[m : m + 1])


@pytest.mark.parametrize(("rows", "heads", "dim"), [(1, 1, 16), (5, 3, 80), (8, 2, 128), (2, 7, 31)])
def test_heads_in_place_within_wider_rows(rows: int, heads: int, dim: int, compare: Compare) -> None:
    x, weight = made(rows * heads, dim)
    expected = exact(x, weight).reshape(rows, heads, dim)
    memory = torch.full((rows, heads + 2, dim), torch.nan)
    own = memory[:, 1:-1]
    own[...] = x.reshape(rows, heads, dim)
    rmsnorm_heads(own, weight, EPS, own)
    compare("rmsnorm heads", own.clone(), expected, rmsnorm_bound(expected))
    assert memory[:, 0].isnan().all() and memory[:, -1].isnan().all()
    assert torch.equal(own.reshape(-1, dim), run(x, weight))


def test_rows_of_zeros_and_a_nan() -> None:
    x, weight = made(3, 40)
    clean = run(x, weight)
    x[0], x[1, 5] = 0, torch.nan
    out = run(x, weight)
    assert (out[0] == 0).all() and out[1].isnan().all() and torch.equal(out[2], clean[2])
