"""Causal attention over paged K and V as the specification: float64 softmax, one row at a time."""

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.ops import KvLayout, Pages
from ebbtide.kernels.reference.kv import gather_kv


def attend_row(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    """Softmax(scale * q k^T) v for one row.

    All f64: q [H, d], keys and values [n, Hkv, d]; H is a multiple of Hkv and query head h reads KV head
    h // (H / Hkv). Returns [H, d].
    """
    heads, head_dim = q.shape
    kv_heads = keys.shape[1]
    grouped = q.reshape(kv_heads, heads // kv_heads, head_dim)
    scores = torch.einsum("kgd,nkd->kgn", grouped, keys) * scale
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("kgn,nkd->kgd", weights, values).reshape(heads, head_dim)


def attention(
    q: NDArray[np.float32],
    positions: NDArray[np.int32],
    block_table: NDArray[np.int32],
    kv: KvLayout,
    pages: Pages,
    scale: float,
    out: NDArray[np.float32],
) -> None:
    """Row m of q f32[M, H, d] attends to keys 0 .. positions[m]; writes out f32[M, H * d]."""
    if len(positions) == 0:
        return
    stored = gather_kv(int(positions.max()) + 1, block_table, kv, pages)
    keys, values = (torch.from_numpy(part).double() for part in stored)
    for row, position in enumerate(positions):
        count = int(position) + 1
        query = torch.from_numpy(np.ascontiguousarray(q[row])).double()
        out[row] = attend_row(query, keys[:count], values[:count], scale).float().flatten().numpy()
