"""Experts of a mixture-of-experts layer, gated activation and weighted sum, plainly."""

import torch

from ebbtide.kernels.ops import F32, I32, U8, Activation, BlockTable, KernelError
from ebbtide.kernels.reference.linear import dense_block


def activate(x: torch.Tensor, activation: Activation) -> torch.Tensor:
    """silu, or gelu in its tanh form."""
    if activation == "silu":
        return torch.nn.functional.silu(x)
    return torch.nn.functional.gelu(x, approximate="tanh")


def glu_tensor(gate_up: torch.Tensor, activation: Activation) -> torch.Tensor:
    """act(left half of the columns) * right half."""
    gate, up = gate_up.chunk(2, dim=-1)
    return activate(gate, activation) * up


def glu(gate_up: F32, out: F32, activation: Activation) -> None:
    """out[M, F] = act(gate_up[M, :F]) * gate_up[M, F:]."""
    out[...] = glu_tensor(torch.from_numpy(gate_up).double(), activation).float().numpy()


def combine(pair: F32, weights: F32, out: F32) -> None:
    """out[M, D] += sum over j of weights[M, k] * pair[M, k, D]."""
    for j in range(pair.shape[1]):
        out += weights[:, j, None] * pair[:, j]


def moe(
    x: F32,
    idx: I32,
    chosen: U8,
    gate_up: BlockTable,
    down: BlockTable,
    out: F32,
    activation: Activation,
) -> None:
    """out[m, j] = expert idx[m, j] of x[m], for the chosen experts."""
    if idx.size and not 0 <= idx.min() <= idx.max() < gate_up.blocks:
        raise KernelError("an index is out of range")
    for expert in range(gate_up.blocks):
        rows, choices = (idx == expert).nonzero()
        if not chosen[expert] or not len(rows):
            continue
        hidden = glu_tensor(torch.from_numpy(x[rows]).double() @ dense_block(gate_up, expert).T, activation)
        out[rows, choices] = (hidden @ dense_block(down, expert).T).float().numpy()
