"""Attention of a few queries to one split: `SPLIT` positions of one KV head, in pages of one format.

A split is worked through in two phases. Scores: a thread has eight neighbouring positions and goes through
every fourth of the head's dimensions; the four threads that share positions add their sums at the end.
Values: a thread has eight dimensions and goes through neighbouring positions; what the threads of a column
have is added at the end. Both load eight values at once (BF16: 16 bytes) and use them for all queries.
Between the phases the weights go through the queries' records in memory, since other threads need them.

The order of every sum depends on the format and the head's size alone: not on how many queries there are,
what they are, or where pages lie.
"""

import triton
import triton.language as tl

from ebbtide.kernels.triton.attention_merge import EMPTY

SPLIT = tl.constexpr(256)
WARPS = 4
RECORD = tl.constexpr(264)
"""Floats of a query's record: a split's weights and then the values' sums, the highest score, the sum of
weights."""
TOP = tl.constexpr(256)
BF16 = tl.constexpr(2)
"""Formats are told by the bytes of a value."""
FP8 = tl.constexpr(1)


@triton.constexpr_function
def together(queries: int) -> int:
    """How many queries are worked on for that many: two at least, so that all sums have one form."""
    return max(1 << (queries - 1).bit_length(), 2)


@triton.jit
def unpack(word, BYTES: tl.constexpr):
    """The values of uint32 words, in the order of their bytes: two bf16, or four E4M3 times 2^-8.

    An E4M3 code, moved to the top of a half-float, has that value: its exponent's bias is 8 less.
    """
    if BYTES == 2:
        return (word << 16).to(tl.float32, bitcast=True), (word & 0xFFFF0000).to(tl.float32, bitcast=True)
    else:
        even = ((word << 8) & 0x80008000) | ((word << 7) & 0x3F803F80)
        odd = (word & 0x80008000) | ((word >> 1) & 0x3F803F80)
        return half_float(even), half_float(odd), half_float(even >> 16), half_float(odd >> 16)


@triton.jit
def half_float(word):
    """f32 of the half-float in the lower half of uint32 words."""
    return (word & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def stack(tensors):
    """A power of two of tensors of one shape side by side in a last dimension."""
    size: tl.constexpr = len(tensors)
    shape: tl.constexpr = tensors[0].shape + [size]  # noqa: RUF005 - Triton has no other way
    if size >= 8:
        tensors = pair(tensors)
    if size >= 4:
        tensors = pair(tensors)
    if size >= 2:
        tensors = pair(tensors)
    return tl.reshape(tensors[0], shape)


@triton.jit
def pair(tensors):
    """Join the first half with the second, one by one."""
    half: tl.constexpr = len(tensors) // 2
    joined = ()
    for i in tl.static_range(half):
        joined += (tl.join(tensors[i], tensors[i + half]),)
    return joined


@triton.jit
def query_offsets(rows, query, HEADS: tl.constexpr, STEP: tl.constexpr):
    """Offsets of what queries have, STEP apart for neighbouring heads of a row; past the last, any."""
    offset = (query % HEADS) * STEP
    for row in tl.static_range(len(rows)):
        offset += tl.where(query // HEADS == row, rows[row], 0)
    return offset


@triton.jit
def beside(value, SHAPE: tl.constexpr):
    """The values of a tensor, each for all of a further, last dimension; how they are spread over threads
    stays as it is.
    """
    return tl.broadcast_to(tl.reshape(value, value.shape + [1]), SHAPE)  # noqa: RUF005 - as in `stack`


@triton.jit
def page_of(pages, runs, position, limit, TOKENS: tl.constexpr):
    """Entries of the runs that positions up to `limit` are in, 0 for others and where there is none."""
    run = position // TOKENS
    return tl.load(pages + run, mask=(position <= limit) & (run < runs), other=0)


@triton.jit
def is_of(page, BYTES: tl.constexpr):
    """Which entries are pages of a format."""
    if BYTES == 2:
        return (page != 0) & ((page & 1) == 0)
    else:
        return (page & 1) == 1


@triton.jit
def scale_of(byte):
    """2^(byte - 127), NaN for 255."""
    bits = byte.to(tl.uint32) << 23
    return tl.where(byte == 255, 0x7FC00000, bits).to(tl.float32, bitcast=True)


@triton.jit
def part(
    q,
    rows,
    work,
    records,
    pages,
    scales,
    runs,
    start,
    limit,
    kv_head,
    kv_heads,
    factor,
    HEADS: tl.constexpr,
    BYTES: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """(highest scores [1, queries], sums of weights [1, queries], sums of weighted values [HEAD_DIM,
    queries]), filled up to powers of two; to two queries at least, so that sums have one form.

    Query i is head i % HEADS of row i // HEADS; `rows` and `records` have an offset for each row, from `q`
    and from `work`, to the first head's. No query sees positions past `limit`. Scores are times `factor`,
    which is log2(e) scale; a weight is 2^(score - highest).
    """
    sums = score_sums(q, rows, pages, runs, start, limit, kv_head, HEADS, BYTES, TOKENS, HEAD_DIM)
    top, total = put_weights(
        sums,
        work,
        records,
        pages,
        scales,
        runs,
        start,
        limit,
        kv_head,
        kv_heads,
        factor,
        HEADS,
        BYTES,
        TOKENS,
    )
    values = weighted_values(
        work, records, pages, runs, start, limit, kv_head, kv_heads, HEADS, BYTES, TOKENS, HEAD_DIM
    )
    return top, total, values


@triton.jit
def score_sums(
    q,
    rows,
    pages,
    runs,
    start,
    limit,
    kv_head,
    HEADS: tl.constexpr,
    BYTES: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """Sums of q k, a tensor f32 [4, 8, words, queries] for each value of a word.

    Warp w, group g, word i, value j are position start + 64 w + 8 g + i (4 / BYTES) + j. `rows` are offsets
    of the queries' rows from `q`.
    """
    queries: tl.constexpr = together(len(rows) * HEADS)
    shape: tl.constexpr = [4, 4, 8, 2 * BYTES, queries]
    per_word: tl.constexpr = 4 // BYTES
    tile: tl.constexpr = TOKENS * 2 // BYTES
    warp = tl.arange(0, 4)[:, None, None, None]
    position = start + warp * 64 + tl.arange(0, 8)[None, None, :, None] * 8
    page = page_of(pages, runs, position, limit, TOKENS)
    mine = is_of(page, BYTES)
    lane = tl.arange(0, 4)[None, :, None, None]
    at = (page & -2) + ((kv_head * HEAD_DIM + lane) * tile + position % tile) * BYTES
    query = tl.arange(0, queries)[None, None, None, None, :]
    x_at = q + query_offsets(rows, query, HEADS, HEAD_DIM) + tl.arange(0, 4)[None, :, None, None, None]
    acc = ()
    for _ in tl.static_range(per_word):
        acc += (tl.zeros(shape, tl.float32),)
    for d in range(0, HEAD_DIM, 16):
        words = ()
        for u in tl.static_range(4):
            line = (at + (d + 4 * u) * (tile * BYTES)).to(tl.pointer_type(tl.uint32))
            word = tl.multiple_of(line, [1, 1, 1, 8 * BYTES]) + tl.arange(0, 2 * BYTES)[None, None, None, :]
            words += (tl.load(word, mask=mine, other=0),)
        for u in tl.static_range(4):
            values = unpack(words[u], BYTES)
            x = tl.load(x_at + (d + 4 * u))
            new = ()
            for j in tl.static_range(per_word):
                new += (tl.fma(x, beside(values[j], shape), acc[j]),)
            acc = new
    sums = ()
    for j in tl.static_range(per_word):
        sums += (tl.sum(acc[j], axis=1),)
    return sums


@triton.jit
def put_weights(
    sums,
    work,
    records,
    pages,
    scales,
    runs,
    start,
    limit,
    kv_head,
    kv_heads,
    factor,
    HEADS: tl.constexpr,
    BYTES: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Store the weights of all positions (of FP8: times the scale of V), 0 for those not seen.

    `records` are offsets of the rows' first records from `work`. Returns the highest scores and the sums of
    weights, [1, queries].
    """
    per_word: tl.constexpr = 4 // BYTES
    group = tl.arange(0, 4)[:, None, None] * 64 + tl.arange(0, 8)[None, :, None] * 8
    place = group + tl.arange(0, 2 * BYTES)[None, None, :] * per_word
    mine = is_of(page_of(pages, runs, start + group, limit, TOKENS), BYTES)
    score = tl.permute(stack(sums), 0, 1, 2, 4, 3)  # [4, 8, words, values of a word, queries]
    place = place[:, :, :, None] + tl.arange(0, per_word)[None, None, None, :]
    seen = (mine[:, :, :, None] & (start + place <= limit))[:, :, :, :, None]
    if BYTES == 1:
        tile: tl.constexpr = TOKENS * 2
        beside = page_of(scales, runs, start + group, limit, TOKENS)[:, :, :, None]
        at = (beside + kv_head * tile + (start + place) % tile).to(tl.pointer_type(tl.uint8))
        is_mine = mine[:, :, :, None]
        score = score * scale_of(tl.load(at, mask=is_mine, other=0))[:, :, :, :, None]
        v_scales = scale_of(tl.load(at + kv_heads * tile, mask=is_mine, other=0))[:, :, :, :, None]
        factor = factor * 256
    score = tl.where(seen, score * factor, EMPTY)
    top = tl.max(tl.max(tl.max(tl.max(score, axis=3), axis=2), axis=1), axis=0)[None, :]
    base = tl.where(top == EMPTY, 0.0, top)[:, None, None, None, :]
    weight = tl.exp2(score - base)
    total = tl.sum(tl.sum(tl.sum(tl.sum(weight, axis=3), axis=2), axis=1), axis=0)[None, :]
    if BYTES == 1:
        weight = tl.where(seen, weight * v_scales, 0.0)
    offset, live = record_offsets(records, HEADS)
    target = work + offset[None, None, None, None, :] + place[:, :, :, :, None]
    tl.debug_barrier()  # the weights of the split before have been read
    tl.store(target, weight, mask=live[None, None, None, None, :])
    tl.debug_barrier()
    return top, total


@triton.jit
def record_offsets(records, HEADS: tl.constexpr):
    """Offsets of all queries' records, and which of them are queries'."""
    queries: tl.constexpr = len(records) * HEADS
    query = tl.arange(0, together(queries))
    return query_offsets(records, query, HEADS, RECORD), query < queries


@triton.jit
def weighted_values(
    work,
    records,
    pages,
    runs,
    start,
    limit,
    kv_head,
    kv_heads,
    HEADS: tl.constexpr,
    BYTES: tl.constexpr,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
):
    """Sums of weight * value, f32 [HEAD_DIM, queries], both filled up to powers of two."""
    queries: tl.constexpr = together(len(records) * HEADS)
    per_word: tl.constexpr = 4 // BYTES
    tile: tl.constexpr = TOKENS * 2 // BYTES
    vectors: tl.constexpr = triton.next_power_of_2(HEAD_DIM) // 8
    slots: tl.constexpr = 128 // vectors
    length: tl.constexpr = SPLIT // slots
    ahead: tl.constexpr = min(length, 4)
    slot = tl.arange(0, slots)[:, None, None]
    vector = tl.arange(0, vectors)[None, :, None]
    few: tl.constexpr = min(queries, max(64 // slots, 1))  # so that all threads load the same weights
    chunks: tl.constexpr = queries // few
    shape: tl.constexpr = [slots, vectors, 2 * BYTES, few]
    first_of_all = tl.arange(0, few)[None, None, None, :] * chunks
    slot_of_all = tl.arange(0, slots)[:, None, None, None] * length
    acc = ()
    for _ in tl.static_range(chunks * per_word):
        acc += (tl.zeros(shape, tl.float32),)
    for first in range(0, length, ahead):
        place = slot * length + first
        page = page_of(pages, runs, start + place, limit, TOKENS)
        token = (kv_heads + kv_head) * tile + (start + place) % tile
        at = (page & -2) + (token * HEAD_DIM + vector * 8) * BYTES
        mine = is_of(page, BYTES) & (vector < HEAD_DIM // 8)
        words = ()
        for u in tl.static_range(ahead):
            line = (at + u * (HEAD_DIM * BYTES)).to(tl.pointer_type(tl.uint32))
            word = tl.multiple_of(line, [1, 1, 8 * BYTES]) + tl.arange(0, 2 * BYTES)[None, None, :]
            words += (tl.load(word, mask=mine & (start + place + u <= limit), other=0),)
        for u in tl.static_range(ahead):
            values = unpack(words[u], BYTES)
            new = ()
            for k in tl.static_range(chunks):
                weight_at = query_offsets(records, first_of_all + k, HEADS, RECORD) + slot_of_all
                weight = tl.load(work + weight_at + (first + u))
                for j in tl.static_range(per_word):
                    new += (tl.fma(weight, beside(values[j], shape), acc[k * per_word + j]),)
            acc = new
    sums = ()
    for k in tl.static_range(chunks):
        of_words = ()
        for j in tl.static_range(per_word):
            of_words += (acc[k * per_word + j],)
        sums += (stack(of_words),)
    total = tl.permute(stack(sums), 0, 1, 2, 4, 3, 5)  # [.., words, values of a word, few, chunks]
    total = tl.sum(tl.reshape(total, [slots, vectors, 2 * BYTES, per_word, queries]), axis=0)
    if BYTES == 1:
        total = total * 256
    return tl.reshape(total, [vectors * 8, queries])
