"""Attention in Triton's interpreter on CPU tensors, and how far it may be from the exact one."""

from typing import NamedTuple

import numpy as np
import torch

from ebbtide.kernels.ops import F32, I32, KvLayout
from ebbtide.kernels.reference.attention import attend_row
from ebbtide.kernels.reference.seal import gather_mixed
from ebbtide.kernels.triton.attention import attention, attention_floats
from ebbtide.kernels.triton.kv_tables import KvTable, kv_addresses, scale_addresses
from tests.helpers.sealed_store import SealedStore

UNIT = 2.0**-24


class Case(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    tokens: int
    positions: list[int]
    sealed: tuple[int, ...] = ()
    """Pairs of runs whose page is FP8."""

    def __str__(self) -> str:
        first, last, rows = self.positions[0], self.positions[-1], len(self.positions)
        shape = f"{self.heads}/{self.kv_heads}x{self.head_dim}-T{self.tokens}"
        return f"{shape}-{rows}rows-{first}..{last}-{len(self.sealed)}fp8"


class Filled(NamedTuple):
    store: SealedStore
    q: torch.Tensor
    positions: torch.Tensor


def filled(case: Case, seed: int = 1) -> Filled:
    """Pages with random K and V at 0 .. max(positions), NaN behind; queries [M, H, d] and positions [M]."""
    rng = np.random.default_rng(seed)
    count = max(case.positions) + 1
    layout = KvLayout(case.kv_heads, case.head_dim, case.tokens)
    store = SealedStore(layout, count, seed=seed)
    k, v = rng.standard_normal((2, count, case.kv_heads, case.head_dim)).astype(np.float32)
    store.fill(k, v)
    store.seal_pairs(list(case.sealed))
    q = rng.standard_normal((len(case.positions), case.heads, case.head_dim)).astype(np.float32)
    return Filled(store, torch.from_numpy(q), torch.tensor(case.positions, dtype=torch.int32))


def device_table(store: SealedStore, block_table: I32, may_seal: bool) -> KvTable:
    """A block table of any shape as kernels read it."""
    scales = scale_addresses(block_table, store.layout, store.pages, store.sidecar) if may_seal else None
    return KvTable(
        torch.from_numpy(kv_addresses(block_table, store.pages)),
        None if scales is None else torch.from_numpy(scales),
    )


def run(
    at: Filled, rows: slice | list[int] = slice(None), *, table: KvTable | None = None, faults: int = 0
) -> torch.Tensor:
    """out [M, H * d] of one call; scratch and output are NaN before, and around the output it stays."""
    store = at.store
    if table is None:
        table = device_table(store, store.table, bool((store.table >= 1 << 30).any()))
    q, positions = at.q[rows], at.positions[rows]
    count, heads, head_dim = q.shape
    context = table.pages.shape[-1] * store.layout.tokens
    may_seal = table.scales is not None
    work = torch.full((attention_floats(count, heads, context, may_seal=may_seal),), torch.nan)
    memory = torch.full((count + 1, heads * head_dim + 16), torch.nan)
    out = memory[:count, : heads * head_dim]
    fault = torch.zeros(1, dtype=torch.int32)
    before = store.bytes()
    attention(q, positions, table, store.layout, head_dim**-0.5, work, out, fault, context=context)
    assert (store.bytes() == before).all(), "attention wrote into a page"
    assert int(fault.item()) == faults
    result = out.clone()
    out.fill_(torch.nan)
    assert memory.isnan().all()
    return result


def exact(at: Filled) -> torch.Tensor:
    """The same in float64."""
    keys, values = (torch.from_numpy(part).double() for part in gathered(at))
    scale = at.q.shape[2] ** -0.5
    rows = [
        attend_row(q.double(), keys[: p + 1], values[: p + 1], scale).flatten()
        for q, p in zip(at.q, at.positions.tolist(), strict=True)
    ]
    return torch.stack(rows)


def gathered(at: Filled) -> tuple[F32, F32]:
    store = at.store
    count = int(at.positions.max()) + 1
    return gather_mixed(count, store.table, store.layout, store.pages, store.sidecar)


def error_bound(at: Filled) -> float:
    """Largest error that f32 rounding can make.

    A score is a chain of d products: it is off by at most d + 1 units of sum |q k| scale, and by some more
    of itself for the factor. That changes 2^score by the same relative amount, twice (numerator and sum). The
    sums add one unit per position of a split, merging four a split, the exponential a few.
    """
    keys, values = (torch.from_numpy(part).abs() for part in gathered(at))
    rows, _, head_dim = at.q.shape
    grouped = at.q.abs().reshape(rows, keys.shape[1], -1, head_dim)
    magnitude = torch.einsum("mkgd,nkd->mkgn", grouped, keys).max() * head_dim**-0.5
    splits = int(at.positions.max()) // 256 + 1
    units = 2 * (head_dim + 4) * magnitude + 2 * 256 + 16 * splits + 16
    return float(2 * UNIT * units * values.max())
