"""Causal attention over paged keys and values.

Positions are cut into splits of 256. A few rows: `split_kernel` makes a record of every (row, head, split),
one for each format where pages may be of both; `merge_kernel` merges the records of a row in order. Many rows
(a prompt's): `body_kernel` goes through the splits that a row sees whole and leaves one record,
`split_kernel` makes those of the last split, which the row may see in part. A row's bits are the same either
way, and depend on nothing but the row and what it sees.
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
    is_of,
    page_of,
    part,
    record_offsets,
    together,
)
from ebbtide.kernels.triton.kv_tables import KvTable, dense_heads, require_bf16

FEW_ROWS = 8
"""Up to here every split of every row has a program of its own."""
MAX_HEADS = 8
"""Query heads of one program: each read value is used for all of them."""
BODY_QUERIES = 8


def most_registers(arch: int, *, may_seal: bool) -> int | None:
    """For a thread, where the assembler has to be told: by itself it aims at 168 and spills on sm_75."""
    return 255 if may_seal and arch == 75 else None


def attention_floats(rows: int, heads: int, context: int, *, may_seal: bool = False) -> int:
    """Floats of scratch for a call with `rows` rows and positions below `context`."""
    record: int = RECORD.value
    return rows * _slots(rows, context, may_seal) * heads * record


def _slots(rows: int, context: int, may_seal: bool) -> int:
    """Records of each row and head."""
    formats = 2 if may_seal else 1
    splits: int = triton.cdiv(context, SPLIT.value)
    return splits * formats if rows <= FEW_ROWS else 1 + formats


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
    may_seal = table.scales is not None
    slots = _slots(rows, context, may_seal)
    assert work.is_contiguous() and work.numel() >= rows * slots * heads * RECORD.value
    assert work.numel() < 1 << 31 and rows * q.stride(0) < 1 << 31  # offsets are 32 bits
    group = heads // kv.heads
    heads_together = max(count for count in range(1, MAX_HEADS + 1) if group % count == 0)
    is_few = rows <= FEW_ROWS
    splits = triton.cdiv(context, SPLIT.value)
    pages_step = table.pages.stride(0) if table.pages.ndim == 2 else 0
    given = (q, positions, table.pages, table.pages if table.scales is None else table.scales, work, fault)
    sizes = (q.stride(0), pages_step, slots, table.pages.shape[-1], kv.heads, scale * math.log2(math.e))
    constants = {
        "GROUP": group,
        "HEADS": heads_together,
        "MAY_SEAL": may_seal,
        "TOKENS": kv.tokens,
        "HEAD_DIM": head_dim,
        "num_warps": WARPS,
        "enable_fp_fusion": False,
    }
    if may_seal and q.is_cuda:
        major, minor = torch.cuda.get_device_capability(q.device)
        if registers := most_registers(10 * major + minor, may_seal=may_seal):
            constants["maxnreg"] = registers
    if not is_few:
        tile = 1 if pages_step else max(1, BODY_QUERIES // heads_together)
        body_kernel[(triton.cdiv(rows, tile), heads // heads_together)](
            *given, *sizes, rows, ROWS=tile, **constants
        )
    split_kernel[(splits if is_few else 1, heads // heads_together, rows)](
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
        MAY_SEAL=may_seal,
        LAST=not is_few,
        num_warps=2,
        enable_fp_fusion=False,
    )


@triton.jit
def see_split(
    q,
    rows,
    work,
    weights,
    records,
    step,
    whole,
    pages,
    scales,
    fault,
    runs,
    index,
    limit,
    kv_head,
    kv_heads,
    factor,
    HEADS: tl.constexpr,
    MAY_SEAL: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ADD: tl.constexpr,
):
    """What queries see of split `index` (`part`): of its FP8 pages, then of its BF16 pages.

    ADD: both are added to the records of those rows that see more splits than `index`, of `whole`. Otherwise
    the first makes records and the second those `step` floats behind them.
    """
    position = index * SPLIT + tl.arange(0, 32) * 8
    page = page_of(pages, runs, position, limit, TOKENS)
    missing = tl.sum(((position <= limit) & (page == 0)).to(tl.int32), axis=0)
    if missing > 0:
        tl.atomic_add(fault, 1)
    given = (pages, scales, runs, index * SPLIT, limit, kv_head, kv_heads, factor)
    if MAY_SEAL:
        if tl.sum(is_of(page, FP8).to(tl.int32), axis=0) > 0:
            top, total, values = part(q, rows, work, weights, *given, HEADS, FP8, TOKENS, HEAD_DIM)
            keep(work, records, whole, index, top, total, values, HEADS, HEAD_DIM, ADD)
        elif not ADD:
            put_nothing(work, records, HEADS)
        if not ADD:
            work += step
        if (missing > 0) | (tl.sum(is_of(page, BF16).to(tl.int32), axis=0) > 0):
            top, total, values = part(q, rows, work, weights, *given, HEADS, BF16, TOKENS, HEAD_DIM)
            top, total = spoil(top, total, missing)
            keep(work, records, whole, index, top, total, values, HEADS, HEAD_DIM, ADD)
        elif not ADD:
            put_nothing(work, records, HEADS)
    else:
        top, total, values = part(q, rows, work, weights, *given, HEADS, BF16, TOKENS, HEAD_DIM)
        top, total = spoil(top, total, missing)
        keep(work, records, whole, index, top, total, values, HEADS, HEAD_DIM, ADD)


@triton.jit
def spoil(top, total, missing):
    """No number comes of a split with a missing page."""
    return tl.where(missing > 0, 0.0, top), tl.where(missing > 0, float("nan"), total)


@triton.jit
def keep(
    work,
    records,
    whole,
    index,
    top,
    total,
    values,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    ADD: tl.constexpr,
):
    """Store what queries have seen, or add it to what their records say."""
    column = tl.arange(0, triton.next_power_of_2(HEAD_DIM))[:, None]
    offset, live = record_offsets(records, HEADS)
    record, live = work + offset[None, :], live[None, :]
    tl.debug_barrier()  # all weights have been read, and records are as they were left
    if ADD:
        # What a row does not see whole is nothing to it.
        query = tl.arange(0, together(len(records) * HEADS))[None, :]
        for row in tl.static_range(len(records)):
            top = tl.where((query // HEADS == row) & (index >= whole[row]), EMPTY, top)
        before = tl.load(record + TOP, mask=live, other=EMPTY)
        before_total = tl.load(record + TOP + 1, mask=live, other=0.0)
        before_values = tl.load(record + column, mask=live, other=0.0)
        top, total, values = merge(before, before_total, before_values, top, total, values)
        tl.debug_barrier()  # all threads have read the two numbers
    tl.store(record + column, values, mask=live)
    tl.store(record + TOP, top, mask=live)
    tl.store(record + TOP + 1, total, mask=live)


@triton.jit
def put_nothing(work, records, HEADS: tl.constexpr):
    """Records of what saw nothing: their sums are never used."""
    offset, live = record_offsets(records, HEADS)
    tl.store(work + offset + TOP, EMPTY, mask=live)


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
    """Program (s, b, m) makes the records of split s (LAST: of the last one) for HEADS heads of row m."""
    row = tl.program_id(2)
    limit = tl.load(positions + row)
    index = tl.program_id(0)
    slot = index * (2 if MAY_SEAL else 1)
    if LAST:
        index = limit // SPLIT
        slot = 1
    if index * SPLIT <= limit:
        head = tl.program_id(1) * HEADS
        step = kv_heads * (GROUP * RECORD)
        records = ((row * slots + slot) * step,)
        see_split(
            q + head * HEAD_DIM,
            (row * q_step,),
            work + head * RECORD,
            records,
            records,
            step,
            (0,),
            pages + row * pages_step,
            scales + row * pages_step,
            fault,
            runs,
            index,
            limit,
            head // GROUP,
            kv_heads,
            factor,
            HEADS,
            MAY_SEAL,
            TOKENS,
            HEAD_DIM,
            False,
        )


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
    """Program (t, b) puts all but the last splits of rows ROWS t ... into slot 0, for HEADS heads.

    Weights go through slot 1, whose records are made later.
    """
    head = tl.program_id(1) * HEADS
    first = tl.program_id(0) * ROWS
    step = kv_heads * (GROUP * RECORD)
    queries = ()
    weights = ()
    records = ()
    whole = ()
    most = 0
    for r in tl.static_range(ROWS):
        row = tl.minimum(first + r, rows - 1)  # past the last: that once more
        splits = tl.maximum(tl.load(positions + row), 0) // SPLIT
        most = tl.maximum(most, splits)
        queries += (row * q_step,)
        weights += ((row * slots + 1) * step,)
        records += (row * slots * step,)
        whole += (splits,)
    put_nothing(work + head * RECORD, records, HEADS)
    for index in range(0, most):
        see_split(
            q + head * HEAD_DIM,
            queries,
            work + head * RECORD,
            weights,
            records,
            0,
            whole,
            pages + first * pages_step,
            scales + first * pages_step,
            fault,
            runs,
            index,
            index * SPLIT + SPLIT - 1,
            head // GROUP,
            kv_heads,
            factor,
            HEADS,
            MAY_SEAL,
            TOKENS,
            HEAD_DIM,
            True,
        )


@triton.jit
def merge_kernel(
    work,
    positions,
    out,
    fault,
    out_step,
    slots,
    HEAD_DIM: tl.constexpr,
    MAY_SEAL: tl.constexpr,
    LAST: tl.constexpr,
):
    """Program (m, h) merges the records of head h of row m."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    limit = tl.load(positions + row)
    count = (limit // SPLIT + 1) * (2 if MAY_SEAL else 1)
    if LAST:
        count = slots
    if (limit < 0) | (count > slots):
        if head == 0:
            tl.atomic_add(fault, 1)
        count = 0
    column = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
    record = work + (row * slots * heads + head) * RECORD
    top = tl.full([], EMPTY, tl.float32)
    total = tl.full([], 0.0, tl.float32)
    values = tl.zeros([triton.next_power_of_2(HEAD_DIM)], tl.float32)
    for first in range(0, count, 8):
        tops = ()
        totals = ()
        outs = ()
        for u in tl.static_range(8):
            here = record + (first + u) * (heads * RECORD)
            live = first + u < count
            tops += (tl.load(here + TOP, mask=live, other=EMPTY),)
            totals += (tl.load(here + TOP + 1, mask=live, other=0.0),)
            outs += (tl.load(here + column, mask=column < tl.where(live, HEAD_DIM, 0), other=0.0),)
        for u in tl.static_range(8):
            top, total, values = merge(top, total, values, tops[u], totals[u], outs[u])
    target = out + row * out_step + head * HEAD_DIM + column
    tl.store(target, values / total, mask=column < HEAD_DIM)
