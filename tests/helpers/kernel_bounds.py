"""How far kernels over rows may be from the exact result, from the roundings that they make."""

import torch

from tests.helpers.plane_blocks import UNIT

Tensor = torch.Tensor


def rmsnorm_bound(exact: Tensor) -> Tensor:
    """A sum of squares is off by one unit per addition of a chain, its root by half of that; then mean, root,
    inverse and two products."""
    cols = exact.shape[-1]
    return exact.double().abs() * UNIT * (cols / 1024 + 12 + 8) + 1e-37


def glu_bound(exact: Tensor, gate_up: Tensor) -> Tensor:
    """An exponent has a few roundings of up to its size, which is at most 90 before all is zero; where gelu
    all but vanishes the reference itself has no more than float64's digits of the gate."""
    gate, up = gate_up.double().abs().chunk(2, dim=1)
    return 300 * UNIT * exact.double().abs() + 2.0**-51 * gate * up


def row_gate_bound(x: Tensor, weight: Tensor) -> float:
    """A chain of sums and halvings, then the logistic function, which is nowhere steeper than 1/4."""
    magnitude = float((x.abs().double() @ weight.abs().double()).max())
    return UNIT * (x.shape[1] / 1024 + 12) * magnitude + 8 * UNIT


def rope_bound(x: Tensor) -> float:
    """Two products and a sum of values of the largest size."""
    return float(4 * UNIT * x.abs().double().max())


def score_slack(x: Tensor, w: Tensor) -> float:
    """How far off the router's scores make a share: a score is off by one unit of the magnitudes for each of
    its sums (a chain of tiles, then 8 halvings) and products, and a share by twice that."""
    return 2 * UNIT * (x.shape[1] / 256 + 10) * float((x.abs() @ w.abs().T).max())
