"""Block tables of the KV cache as kernels on a card read them: the address of every run's page.

A page's address is a multiple of 16; an FP8 page (`kernels/sealed.py`) is told by an address one higher, and
is named by both of its runs. Its scales have a table of their own. 0 = absent.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.ops import I32, KernelError, KvLayout, Pages
from ebbtide.kernels.sealed import SEALED, Sidecar, scale_bytes
from ebbtide.kernels.triton.tables import page_addresses

I64 = NDArray[np.int64]
FP8_MARK = 1


class KvTable(NamedTuple):
    """int64 [B], or [M, B] for rows of different sequences; contiguous along B."""

    pages: torch.Tensor
    scales: torch.Tensor | None = None
    """Where each run's FP8 page has its scales; None = no page is FP8."""


def kv_addresses(block_table: I32, pages: Pages) -> I64:
    """`KvTable.pages` of a block table of any shape."""
    sealed = block_table >= SEALED
    addresses = page_addresses(pages, np.where(sealed, block_table - SEALED, block_table))
    return addresses + FP8_MARK * sealed


def scale_addresses(block_table: I32, kv: KvLayout, pages: Pages, sidecar: Sidecar) -> I64:
    """`KvTable.scales` of a block table of any shape; `kv` is the BF16 layout. 0 where a page is not FP8."""
    beside = Pages(sidecar.bases, pages.pages_per_slab, scale_bytes(kv))
    return page_addresses(beside, np.where(block_table >= SEALED, block_table - SEALED, -1))


def require_bf16(kv: KvLayout) -> None:
    """Kernels are told the BF16 layout of a pool, also where its pages are sealed later."""
    if kv.format != "bf16" or kv.tokens % 8 or kv.head_dim % 16:
        raise KernelError(f"{kv} is not a BF16 layout of whole vectors")


def dense_heads(x: torch.Tensor) -> bool:
    """Whether each row of x [M, H, d] is contiguous; rows may be apart."""
    rows, heads, head_dim = x.shape
    return rows == 0 or (x.stride(2) == 1 and (heads == 1 or x.stride(1) == head_dim))
