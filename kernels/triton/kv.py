"""New keys and values into BF16 pages."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.triton.bf16 import bf16_bits
from ebbtide.kernels.triton.kv_tables import KvTable, dense_heads, require_bf16

ROWS = 16
"""Rows of one program where there are many: their keys are neighbours in a page, 32 bytes of each line."""


def kv_write(
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    table: KvTable,
    kv: KvLayout,
    fault: torch.Tensor,
) -> None:
    """Store k, v f32 [M, heads, head_dim] (rows may be apart) at `positions` i32 [M], each named once.

    A row whose position has no BF16 page is not stored and adds 1 to `fault` i32 [1].
    """
    require_bf16(kv)
    rows, heads, head_dim = k.shape
    assert (heads, head_dim) == (kv.heads, kv.head_dim) and v.shape == k.shape
    assert dense_heads(k) and dense_heads(v) and positions.shape == (rows,)
    assert table.pages.stride(-1) == 1 and (table.pages.ndim == 1 or len(table.pages) == rows)
    if rows:
        tile = 1 if rows < 4 else ROWS
        kv_write_kernel[(triton.cdiv(rows, tile), heads)](
            k,
            v,
            positions,
            table.pages,
            fault,
            k.stride(0),
            v.stride(0),
            table.pages.stride(0) if table.pages.ndim == 2 else 0,
            rows,
            table.pages.shape[-1],
            TOKENS=kv.tokens,
            HEAD_DIM=head_dim,
            ROWS=tile,
            num_warps=1 if tile == 1 else 4,
            enable_fp_fusion=False,
        )


@triton.jit
def kv_write_kernel(
    k,
    v,
    positions,
    pages,
    fault,
    k_step,
    v_step,
    pages_step,
    rows,
    runs,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Program (t, h) stores head h of rows ROWS t ...; their page addresses are `pages` [runs]."""
    head = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    asked = row < rows
    position = tl.load(positions + row, mask=asked, other=0)
    run = position // TOKENS
    named = asked & (position >= 0) & (run < runs)
    page = tl.load(pages + row.to(tl.int64) * pages_step + run, mask=named, other=0)
    known = named & (page != 0) & ((page & 1) == 0)
    missing = tl.sum((asked & ~known).to(tl.int32), axis=0)
    if (head == 0) & (missing > 0):
        tl.atomic_add(fault, missing)
    column = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    live = known[:, None] & (column < HEAD_DIM)[None, :]
    source = row.to(tl.int64)[:, None] * k_step + head * HEAD_DIM + column[None, :]
    keys = bf16_bits(tl.load(k + source, mask=live, other=0.0))
    place = position - run * TOKENS
    at = page + (head * (HEAD_DIM * TOKENS) + place).to(tl.int64) * 2
    line = at[None, :] + (column * (TOKENS * 2))[:, None]
    live_keys = known[None, :] & (column < HEAD_DIM)[:, None]
    tl.store(line.to(tl.pointer_type(tl.uint16)), tl.trans(keys), mask=live_keys)
    source = row.to(tl.int64)[:, None] * v_step + head * HEAD_DIM + column[None, :]
    values = bf16_bits(tl.load(v + source, mask=live, other=0.0))
    heads = tl.num_programs(1)
    at = page + ((heads + head) * (HEAD_DIM * TOKENS) + place * HEAD_DIM).to(tl.int64) * 2
    start = tl.multiple_of(at[:, None].to(tl.pointer_type(tl.uint16)), [1, 16])
    tl.store(start + column[None, :], values, mask=live)
