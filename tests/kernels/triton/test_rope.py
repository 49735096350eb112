"""Rotary position embedding against float64, both layouts."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.reference import rope as reference
from ebbtide.kernels.triton.rope import rope
from tests.helpers.kernel_bounds import rope_bound
from tests.kernels.triton.conftest import Compare

POSITIONS = 97
# rows, heads, head_dim, rotated: whole and partial heads, an odd number of pairs, none
SHAPES = [(1, 9, 64, 64), (5, 4, 80, 32), (3, 2, 96, 6), (8, 3, 128, 128), (2, 1, 256, 128), (4, 3, 32, 0)]


def tables(pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
    angle = np.arange(POSITIONS)[:, None] * 10000.0 ** (-np.arange(pairs) / max(pairs, 1))
    return torch.from_numpy(np.cos(angle).astype(np.float32)), torch.from_numpy(
        np.sin(angle).astype(np.float32)
    )


def made(rows: int, heads: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x amid NaN, whose rows lie apart, and positions."""
    rng = np.random.default_rng(rows + heads)
    memory = torch.full((rows, heads + 1, dim), torch.nan)
    memory[:, :heads] = torch.from_numpy(rng.standard_normal((rows, heads, dim)).astype(np.float32))
    return memory, torch.from_numpy(rng.integers(0, POSITIONS, rows).astype(np.int32))


def run(x: torch.Tensor, pairs: int, positions: torch.Tensor, interleaved: bool) -> int:
    fault = torch.zeros(1, dtype=torch.int32)
    rope(x, *tables(pairs), positions, interleaved, fault)
    return int(fault.item())


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(("rows", "heads", "dim", "rotated"), SHAPES)
def test_matches_the_reference(
    rows: int, heads: int, dim: int, rotated: int, interleaved: bool, compare: Compare
) -> None:
    memory, positions = made(rows, heads, dim)
    x = memory[:, :heads]
    alone = x.clone()
    expected = x.numpy().copy()
    cos, sin = (table.numpy() for table in tables(rotated // 2))
    reference.rope(expected, cos, sin, positions.numpy(), interleaved)
    assert run(x, rotated // 2, positions, interleaved) == 0
    compare("rope", x.clone(), torch.from_numpy(expected), rope_bound(alone))
    assert memory[:, heads].isnan().all()
    assert torch.equal(x[..., rotated:], alone[..., rotated:])
    for m in range(rows):
        run(alone[m : m + 1], rotated // 2, positions[m : m + 1], interleaved)
    assert torch.equal(alone, x)


def test_a_position_outside_of_the_tables_is_reported() -> None:
    memory, positions = made(3, 2, 32)
    x, before = memory[:, :2], memory[:, :2].clone()
    positions[0], positions[2] = -1, POSITIONS
    assert run(x, 16, positions, False) == 2
    assert torch.equal(x[0], before[0]) and torch.equal(x[2], before[2]) and not torch.equal(x[1], before[1])
