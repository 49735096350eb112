"""The gated activation and a shared expert's gate against float64."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import Activation
from ebbtide.kernels.reference import moe as reference
from ebbtide.kernels.triton.glu import glu, row_gate
from tests.helpers.kernel_bounds import glu_bound, row_gate_bound
from tests.kernels.triton.conftest import Compare


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 31), (8, 256), (2, 521)])
def test_gated_activation(rows: int, cols: int, activation: Activation, compare: Compare) -> None:
    rng = np.random.default_rng(cols)
    x = (rng.standard_normal((rows, 2 * cols)) * rng.choice([0.01, 1, 8, 60], (rows, 2 * cols))).astype(
        np.float32
    )
    expected = np.empty((rows, cols), np.float32)
    reference.glu(x, expected, activation)
    memory = torch.full((rows, cols + 3), torch.nan)
    out = memory[:, :cols]
    glu(torch.from_numpy(x), out, activation)
    exact = torch.from_numpy(expected)
    compare("glu", out.clone(), exact, glu_bound(exact, torch.from_numpy(x)))
    assert memory[:, cols:].isnan().all()
    for m in range(rows):
        alone = torch.full((1, cols), torch.nan)
        glu(torch.from_numpy(x[m : m + 1]), alone, activation)
        assert torch.equal(alone[0], out[m])


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (3, 31), (8, 256), (2, 1031)])
def test_row_gate(rows: int, cols: int, compare: Compare) -> None:
    rng = np.random.default_rng(rows)
    x, weight = (
        torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((rows, cols), cols)
    )
    out = torch.full((rows, 2), torch.nan)
    row_gate(x, weight, out[:, 0])
    exact = torch.sigmoid(x.double() @ weight.double())
    compare("row gate", out[:, 0].clone(), exact, row_gate_bound(x, weight))
    assert out[:, 1].isnan().all()
    for m in range(rows):
        alone = torch.full((1,), torch.nan)
        row_gate(x[m : m + 1], weight, alone)
        assert torch.equal(alone[0], out[m, 0])


def test_gates_far_out() -> None:
    out = torch.full((3,), torch.nan)
    row_gate(torch.tensor([[1000.0], [-1000.0], [torch.nan]]), torch.ones(1), out)
    assert out[:2].tolist() == [1.0, 0.0] and out[2].isnan()
