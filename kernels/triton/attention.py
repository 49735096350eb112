"""Causal attention over paged keys and values.

Positions are cut into splits of 256. A few rows: `split_kernel` makes a record of every (row, head, split),
`merge_kernel` merges the records of a row in order. Many rows (a prompt's): `body_kernel` goes through the
splits that a row sees whole and leaves one record, `split_kernel` makes that of the last split, which the row
may see in part. A row's bits are the same either way, and depend on nothing but the row and what it sees.
"""

import math

import torch
import triton
import triton.language as tl

from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.triton.attention_merge import EMPTY, merge
from ebbtide.kernels.triton.attention_part import (
    BF16,
    FP8,
    RECORD,
    SPLIT,
    TOP,
    WARPS,
    at_query,
    is_of,
    page_of,
    part,
)
from ebbtide.kernels.triton.kv_tables import KvTable, dense_heads, require_bf16

FEW_ROWS = 8
"""Up to here every split of every row has a program of its own."""
MAX_HEADS = 8
"""Query heads of one program: each read value is used for all of them."""
BODY_QUERIES = 8


def attention_floats(rows: int, heads: int, context: int, *, may_seal: bool = False) -> int:
    """Floats of scratch for a call with `rows` rows and positions below `context`."""
    return rows * _slots(rows, context, may_seal) * heads * RECORD.value


def _slots(rows: int, context: int, may_seal: bool) -> int:
    """Records of each row and head."""
    return triton.cdiv(context, SPLIT.value) if rows <= FEW_ROWS else 2


def attention(
    q: torch.Tensor,
    positions: torch.Tensor,
    table: KvTable,
    kv: KvLayout,
    scale: float,
    work: torch.Tensor,
    out: torch.Tensor,
    fault: torch.Tensor,
    *,
    context: int,
) -> None:
    """out[M, H * d] = attention of q f32 [M, H, d] (rows may be apart); row m sees 0 .. positions[m].

    `kv` is the BF16 layout, also where `table` has FP8 pages; positions i32 [M] are below `context`; `work`
    is scratch, f32 of `attention_floats(M, H, context)`; d is at most 256. A row whose position or one of
    whose pages does not exist becomes NaN and adds to `fault` i32 [1].
    """
    require_bf16(kv)
    rows, heads, head_dim = q.shape
    if rows == 0:
        return
    assert head_dim == kv.head_dim <= SPLIT.value and heads % kv.heads == 0 and dense_heads(q)
    assert positions.shape == (rows,) and out.shape == (rows, heads * head_dim) and out.stride(1) == 1
    assert table.pages.stride(-1) == 1 and (table.pages.ndim == 1 or len(table.pages) == rows)
    assert table.scales is None or table.scales.stride() == table.pages.stride()
    assert work.is_contiguous() and work.numel() >= attention_floats(rows, heads, context)
    assert work.numel() < 1 << 31 and rows * q.stride(0) < 1 << 31  # offsets are 32 bits
    group = heads // kv.heads
    together = max(count for count in range(1, MAX_HEADS + 1) if group % count == 0)
    is_few = rows <= FEW_ROWS
    slots = _slots(rows, context, table.scales is not None)
    pages_step = table.pages.stride(0) if table.pages.ndim == 2 else 0
    given = (q, positions, table.pages, table.pages if table.scales is None else table.scales, work, fault)
    sizes = (q.stride(0), pages_step, slots, table.pages.shape[-1], kv.heads, scale * math.log2(math.e))
    constants = {
        "GROUP": group,
        "HEADS": together,
        "MAY_SEAL": table.scales is not None,
        "TOKENS": kv.tokens,
        "HEAD_DIM": head_dim,
        "num_warps": WARPS,
        "enable_fp_fusion": False,
    }
    if not is_few:
        tile = 1 if pages_step else max(1, BODY_QUERIES // together)
        body_kernel[(triton.cdiv(rows, tile), heads // together)](
            *given, *sizes, rows, ROWS=tile, **constants
        )
    split_kernel[(slots if is_few else 1, heads // together, rows)](
        *given, *sizes, LAST=not is_few, **constants
    )
    merge_kernel[(rows, heads)](
        work,
        positions,
        out,
        fault,
        out.stride(0),
        slots,
        HEAD_DIM=head_dim,
        LAST=not is_few,
        num_warps=2,
        enable_fp_fusion=False,
    )


@triton.jit
def split(
    q,
    rows,
    work,
    records,
    pages,
    scales,
    fault,
    runs,
    start,
    limit,
    kv_head,
    kv_heads,
    factor,
    HEADS: tl.constexpr,
    MAY_SEAL: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """`part` for a split whose pages may be of both formats: first what is FP8, then what is BF16."""
    position = start + tl.arange(0, 32) * 8
    page = page_of(pages, runs, position, limit, TOKENS)
    missing = tl.sum(((position <= limit) & (page == 0)).to(tl.int32), axis=0)
    if missing > 0:
        tl.atomic_add(fault, 1)
    given = (q, rows, work, records, pages, scales, runs, start, limit, kv_head, kv_heads, factor)
    if MAY_SEAL:
        tops, totals, outs = nothing(len(rows) * HEADS, HEAD_DIM)
        if tl.sum(is_of(page, FP8).to(tl.int32), axis=0) > 0:
            tops, totals, outs = part(*given, HEADS, FP8, TOKENS, HEAD_DIM)
        if tl.sum(is_of(page, BF16).to(tl.int32), axis=0) > 0:
            new_tops, new_totals, new_outs = part(*given, HEADS, BF16, TOKENS, HEAD_DIM)
            tops, totals, outs = merge_all(tops, totals, outs, new_tops, new_totals, new_outs)
    else:
        tops, totals, outs = part(*given, HEADS, BF16, TOKENS, HEAD_DIM)
    known_tops = ()
    known_totals = ()
    for i in tl.static_range(len(rows) * HEADS):
        known_tops += (tl.where(missing > 0, 0.0, tops[i]),)
        known_totals += (tl.where(missing > 0, float("nan"), totals[i]),)
    return known_tops, known_totals, outs


@triton.jit
def nothing(QUERIES: tl.constexpr, HEAD_DIM: tl.constexpr):
    """What queries have seen before they look."""
    tops = ()
    totals = ()
    outs = ()
    for _ in tl.static_range(QUERIES):
        tops += (tl.full([], EMPTY, tl.float32),)
        totals += (tl.full([], 0.0, tl.float32),)
        outs += (tl.zeros([triton.next_power_of_2(HEAD_DIM)], tl.float32),)
    return tops, totals, outs


@triton.jit
def merge_all(tops, totals, outs, next_tops, next_totals, next_outs):
    """`merge` for each query."""
    new_tops = ()
    new_totals = ()
    new_outs = ()
    for i in tl.static_range(len(tops)):
        top, total, out = merge(tops[i], totals[i], outs[i], next_tops[i], next_totals[i], next_outs[i])
        new_tops += (top,)
        new_totals += (total,)
        new_outs += (out,)
    return new_tops, new_totals, new_outs


@triton.jit
def put_records(work, records, tops, totals, outs, HEADS: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Store what each query has seen, once all weights there have been read."""
    tl.debug_barrier()
    for i in tl.static_range(len(tops)):
        record = at_query(work, records, i, HEADS, RECORD)
        tl.store(record + tl.arange(0, triton.next_power_of_2(HEAD_DIM)), outs[i])
        tl.store(record + TOP, tops[i])
        tl.store(record + TOP + 1, totals[i])


@triton.jit
def split_kernel(
    q,
    positions,
    pages,
    scales,
    work,
    fault,
    q_step,
    pages_step,
    slots,
    runs,
    kv_heads,
    factor,
    GROUP: tl.constexpr,
    HEADS: tl.constexpr,
    MAY_SEAL: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    LAST: tl.constexpr,
):
    """Program (s, b, m) makes the records of split s (LAST: the last, in slot 1) for HEADS heads of row m."""
    row = tl.program_id(2)
    limit = tl.load(positions + row)
    slot = tl.program_id(0)
    index = slot
    if LAST:
        slot = 1
        index = limit // SPLIT
    if index * SPLIT <= limit:
        head = tl.program_id(1) * HEADS
        records = ((row * slots + slot) * (kv_heads * GROUP) * RECORD,)
        tops, totals, outs = split(
            q + head * HEAD_DIM,
            (row * q_step,),
            work + head * RECORD,
            records,
            pages + row * pages_step,
            scales + row * pages_step,
            fault,
            runs,
            index * SPLIT,
            limit,
            head // GROUP,
            kv_heads,
            factor,
            HEADS,
            MAY_SEAL,
            TOKENS,
            HEAD_DIM,
        )
        put_records(work + head * RECORD, records, tops, totals, outs, HEADS, HEAD_DIM)


@triton.jit
def body_kernel(
    q,
    positions,
    pages,
    scales,
    work,
    fault,
    q_step,
    pages_step,
    slots,
    runs,
    kv_heads,
    factor,
    rows,
    GROUP: tl.constexpr,
    HEADS: tl.constexpr,
    MAY_SEAL: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Program (t, b) puts all but the last splits of rows ROWS t ... into slot 0, for HEADS heads."""
    head = tl.program_id(1) * HEADS
    first = tl.program_id(0) * ROWS
    queries = ()
    records = ()
    whole = ()
    most = 0
    for r in tl.static_range(ROWS):
        row = tl.minimum(first + r, rows - 1)  # past the last: that once more
        splits = tl.maximum(tl.load(positions + row), 0) // SPLIT
        most = tl.maximum(most, splits)
        queries += (row * q_step,)
        records += (row * slots * (kv_heads * GROUP) * RECORD,)
        whole += (splits,)
    tops, totals, outs = nothing(ROWS * HEADS, HEAD_DIM)
    for index in range(0, most):
        new_tops, new_totals, new_outs = split(
            q + head * HEAD_DIM,
            queries,
            work + head * RECORD,
            records,
            pages + first * pages_step,
            scales + first * pages_step,
            fault,
            runs,
            index * SPLIT,
            index * SPLIT + SPLIT - 1,
            head // GROUP,
            kv_heads,
            factor,
            HEADS,
            MAY_SEAL,
            TOKENS,
            HEAD_DIM,
        )
        # What a row does not see whole is nothing to it.
        seen_tops = ()
        for i in tl.static_range(ROWS * HEADS):
            seen_tops += (tl.where(index < whole[i // HEADS], new_tops[i], EMPTY),)
        tops, totals, outs = merge_all(tops, totals, outs, seen_tops, new_totals, new_outs)
    put_records(work + head * RECORD, records, tops, totals, outs, HEADS, HEAD_DIM)


@triton.jit
def merge_kernel(
    work,
    positions,
    out,
    fault,
    out_step,
    slots,
    HEAD_DIM: tl.constexpr,
    LAST: tl.constexpr,
):
    """Program (m, h) merges the records of head h of row m."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    limit = tl.load(positions + row)
    count = limit // SPLIT + 1
    if LAST:
        count = 2
    if (limit < 0) | (count > slots):
        if head == 0:
            tl.atomic_add(fault, 1)
        count = 0
    column = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    record = work + (row * slots * heads + head).to(tl.int64) * RECORD
    step = heads.to(tl.int64) * RECORD
    top = tl.full([], EMPTY, tl.float32)
    total = tl.full([], 0.0, tl.float32)
    values = tl.zeros([triton.next_power_of_2(HEAD_DIM)], tl.float32)
    for first in range(0, count, 8):
        tops = ()
        totals = ()
        outs = ()
        for u in tl.static_range(8):
            here = record + (first + u) * step
            live = first + u < count
            tops += (tl.load(here + TOP, mask=live, other=EMPTY),)
            totals += (tl.load(here + TOP + 1, mask=live, other=0.0),)
            outs += (tl.load(here + column, mask=column < tl.where(live, HEAD_DIM, 0), other=0.0),)
        for u in tl.static_range(8):
            top, total, values = merge(top, total, values, tops[u], totals[u], outs[u])
    target = out + row.to(tl.int64) * out_step + head * HEAD_DIM + column
    tl.store(target, values / total, mask=column < HEAD_DIM)
