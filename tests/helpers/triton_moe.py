"""Experts where x is (a card, or Triton's interpreter), and how far they may be from the exact ones."""

from typing import NamedTuple

import numpy as np
import torch

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import Activation, BlockTable
from ebbtide.kernels.triton.arrange import arranged_shape
from ebbtide.kernels.triton.moe import moe
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.on_card import moved
from tests.helpers.plane_blocks import UNIT, scattered_table, weights_of
from tests.helpers.triton_linear import arranged, magnitude

UNTOUCHED = 7.0
"""What outputs hold before."""


class Experts(NamedTuple):
    gate_up: BlockTable
    down: BlockTable


def experts(
    names: tuple[str, str, str], dim: int, d_ff: int, widths: list[int], page_bytes: int = 4096
) -> Experts:
    """Random experts of these formats (gate, up, down) and widths in scattered pages."""
    rng = np.random.default_rng(dim)
    shapes = [MatrixShape(d_ff, dim, FORMATS[name]) for name in names[:2]]
    gate_up = block_layout(shapes, page_bytes=page_bytes, floor_planes=2)
    down = block_layout([MatrixShape(dim, d_ff, FORMATS[names[2]])], page_bytes=page_bytes, floor_planes=2)
    return Experts(scattered_table(gate_up, rng, widths), scattered_table(down, rng, widths))


def run(
    x: torch.Tensor,
    idx: torch.Tensor,
    chosen: torch.Tensor,
    pair: tuple[BlockTable, BlockTable],
    activation: Activation = "silu",
    faults: int = 0,
) -> torch.Tensor:
    """out [M, k, D]; `UNTOUCHED` where nothing was written."""
    down = pair[1]
    rows, top_k = idx.shape
    out = torch.full((rows, top_k, down.layout.rows), UNTOUCHED, device=x.device)
    hidden = torch.full(arranged_shape(rows * top_k, down.layout.cols), torch.nan, device=x.device)
    fault = torch.zeros(1, dtype=torch.int32, device=x.device)
    mirrors = [device_table(moved(table, x.device), x.device) for table in pair]
    where = idx.to(x.device), chosen.to(x.device)
    moe(arranged(x), *where, mirrors[0], mirrors[1], hidden, out, fault, activation)
    assert fault.item() == faults
    return out


def bound(x: torch.Tensor, expert: int, pair: tuple[BlockTable, BlockTable]) -> torch.Tensor:
    """Largest |kernel - exact| for one row: gate and up are each off by what `products_bound` says, their
    product by both relative to the other's size (the activations have slopes below 1.2), and `down` passes
    this on."""
    gate, up = weights_of(pair[0], expert)
    (down,) = weights_of(pair[1], expert)
    roundings = 16 + 8 + x.shape[-1] // 256 + 64
    values = [(w.dense() @ x.double()).abs() for w in (gate, up)]
    errors = [roundings * UNIT * (magnitude(w) @ x.abs().double()) for w in (gate, up)]
    product = (
        1.2 * errors[0] * values[1] + (values[0] + errors[0]) * errors[1] + 16 * UNIT * values[0] * values[1]
    )
    return down.dense().abs() @ product + roundings * UNIT * (magnitude(down) @ (values[0] * values[1]))
