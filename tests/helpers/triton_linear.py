"""Plane products where x is (a card, or the interpreter), and how far from the exact ones they may be."""

import numpy as np
import torch

from ebbtide.kernels.layout import MatrixFormat
from ebbtide.kernels.ops import BlockTable
from ebbtide.kernels.reference.planes import Weights
from ebbtide.kernels.triton.arrange import arrange, arranged_shape
from ebbtide.kernels.triton.linear import linear
from ebbtide.kernels.triton.planes import MIXED
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.on_card import moved
from tests.helpers.plane_blocks import UNIT, weights_of

MIXED_WIDTH: int = MIXED.value


def cols_for(form: MatrixFormat, wished: int) -> int:
    """The smallest K of a format from `wished` on."""
    return -(-wished // form.col_multiple) * form.col_multiple


def random_rows(rng: np.random.Generator, rows: int, cols: int) -> torch.Tensor:
    """Rows of very different sizes, with a group of zeros and a peak."""
    x = rng.standard_normal((rows, cols)) * rng.uniform(0.01, 100, (rows, 1))
    x[0, :32] = 0
    x[-1, -1] = 40 * np.abs(x[-1]).max()
    return torch.from_numpy(x.astype(np.float32))


def arranged(x: torch.Tensor) -> torch.Tensor:
    """x[M, K] as the products read it; NaN stays where the kernel writes nothing."""
    out = torch.full(arranged_shape(*x.shape), torch.nan, device=x.device)
    arrange(x, out)
    return out


def products(x: torch.Tensor, table: BlockTable, index: int = 0, width: int = MIXED_WIDTH) -> torch.Tensor:
    """x W^T of block `index`."""
    out = torch.full((len(x), table.layout.rows), torch.nan, device=x.device)
    fault = torch.zeros(1, dtype=torch.int32, device=x.device)
    mirror = device_table(moved(table, x.device), x.device)
    linear(arranged(x), mirror, out, fault, index=index, width=width)
    assert fault.item() == 0
    return out


def exact_products(x: torch.Tensor, table: BlockTable, index: int = 0) -> torch.Tensor:
    """x W^T in float64."""
    return torch.cat([x.double() @ w.dense().T for w in weights_of(table, index)], dim=1)


def products_bound(x: torch.Tensor, table: BlockTable, index: int = 0) -> torch.Tensor:
    """Largest |kernel - exact| [M, N].

    A half line has 16 products and as many sums; the scale, offset and minimum add fewer than 8 roundings,
    the running sum one a tile (at least 16 half lines), the final sum at most 64: each at most one unit of
    the magnitudes that are added.
    """
    roundings = 16 + 8 + x.shape[1] // 256 + 64
    magnitudes = [x.abs().double() @ magnitude(w).T for w in weights_of(table, index)]
    return roundings * UNIT * torch.cat(magnitudes, dim=1)


def magnitude(w: Weights) -> torch.Tensor:
    """|scale| (|code| + |offset|) + |minimum| of every weight: what the kernel's intermediate values add up
    to.
    """
    scale, minimum = (t.double().abs().repeat_interleave(16, dim=1) for t in (w.scale, w.minimum))
    return scale * (w.codes.double() * w.step + abs(w.offset)) + minimum
