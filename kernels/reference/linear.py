"""Products with plane matrices: dequantise, then a matrix product in float64."""

import torch

from ebbtide.kernels.ops import F32, I32, BlockTable, KernelError
from ebbtide.kernels.reference.planes import load_view


def dense_block(table: BlockTable, index: int = 0) -> torch.Tensor:
    """float64 [N, K]: the views of a block one below the other."""
    return torch.cat([load_view(table, index, view).dense() for view in range(len(table.layout.views))])


def linear(
    x: F32,
    w: BlockTable,
    out: F32,
    *,
    index: int = 0,
    bias: F32 | None = None,
    accumulate: bool = False,
) -> None:
    """out[M, N] (+)= x[M, K] W^T (+ bias)."""
    if not 0 <= index < w.blocks:
        raise KernelError("an index is out of range")
    product = torch.from_numpy(x).double() @ dense_block(w, index).T
    if bias is not None:
        product += torch.from_numpy(bias)
    if accumulate:
        product += torch.from_numpy(out)
    out[...] = product.float().numpy()


def embed(w: BlockTable, ids: I32, out: F32) -> None:
    """out[M, D] = rows `ids` of a one-view block."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < w.layout.rows:
        raise KernelError("an index is out of range")
    out[...] = load_view(w, 0, 0).dense(torch.float32)[torch.from_numpy(ids).long()].numpy()
