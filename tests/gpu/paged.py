"""The KV cache's kernels on a card: writing, sealing and checking pages, attention to both formats."""

import numpy as np
import torch

from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.reference.kv import kv_write as write_reference
from ebbtide.kernels.reference.seal import seal as seal_reference
from ebbtide.kernels.reference.tags import check_tags as tags_reference
from ebbtide.kernels.sealed import SEALED
from ebbtide.kernels.triton.attention import attention, attention_floats
from ebbtide.kernels.triton.kv import kv_write
from ebbtide.kernels.triton.seal import seal
from ebbtide.kernels.triton.tags import check_tags
from tests.gpu.ground import Ground
from tests.gpu.judge import Judge
from tests.helpers.on_card import MovedStore, moved_store
from tests.helpers.sealed_store import SealedStore
from tests.helpers.triton_attention import Case, Filled, error_bound, exact, filled


def check_pages(ground: Ground) -> None:
    """Pages written, sealed and checked."""
    with Judge(ground, "kv write") as judge:
        _write(ground, judge)
    with Judge(ground, "seal") as judge:
        _seal(ground, judge)
    with Judge(ground, "tags") as judge:
        _tags(ground, judge)


def check_starter(ground: Ground) -> None:
    """See `_check_attention`."""
    _check_attention(ground, (9, 3, 64, 48))


def check_olmoe(ground: Ground) -> None:
    """See `_check_attention`."""
    _check_attention(ground, (16, 16, 128, 8))


def check_qwen(ground: Ground) -> None:
    """See `_check_attention`."""
    _check_attention(ground, (32, 4, 128, 24))


def _check_attention(ground: Ground, shape: tuple[int, int, int, int]) -> None:
    """Heads, heads of keys, their size, positions of a page: a row alone, a few rows, a prompt's."""
    for sealed in (False, True):
        with Judge(ground, "FP8" if sealed else "BF16") as judge:
            _attend(ground, judge, (2, 1, 16, 8) if ground.dry else shape, sealed)


def _write(ground: Ground, judge: Judge) -> None:
    rng = np.random.default_rng(ground.seed)
    for heads, dim, tokens in [(1, 16, 8)] if ground.dry else [(3, 64, 48), (4, 128, 24), (2, 80, 24)]:
        layout = KvLayout(heads, dim, tokens)
        for rows in (3,) if ground.dry else (1, 3, 17, 256):
            k, v = rng.standard_normal((2, rows, heads, dim)).astype(np.float32)
            positions = rng.permutation(rows + 30)[:rows].astype(np.int32)
            wanted = SealedStore(layout, rows + 30, seed=ground.seed)
            there = moved_store(SealedStore(layout, rows + 30, seed=ground.seed), ground.device)
            write_reference(k, v, positions, wanted.table, layout, wanted.pages)
            fault = torch.zeros(1, dtype=torch.int32, device=ground.device)
            sent = [torch.from_numpy(each).to(ground.device) for each in (k, v, positions)]
            kv_write(sent[0], sent[1], sent[2], there.table(), layout, fault)
            judge.true("a fault", fault.item() == 0)
            judge.same(f"{rows} rows", torch.from_numpy(there.bytes()), torch.from_numpy(wanted.bytes()))


def _seal(ground: Ground, judge: Judge) -> None:
    """Vectors of very different sizes, one of them without numbers."""
    rng = np.random.default_rng(ground.seed + 2)
    for heads, dim, tokens in [(1, 16, 8)] if ground.dry else [(3, 64, 48), (16, 128, 8), (4, 128, 24)]:
        layout, count = KvLayout(heads, dim, tokens), 8 * tokens
        sizes = 10.0 ** rng.uniform(-6, 6, (2, count, heads, 1))
        k, v = (rng.standard_normal((2, count, heads, dim)) * sizes).astype(np.float32)
        k[5, 0, 3] = np.inf
        wanted, got = (SealedStore(layout, count, seed=ground.seed) for _ in range(2))
        for store in (wanted, got):
            store.fill(k, v)
        sources, targets = wanted.pairs([0, 2, 3])
        seal_reference(sources, targets, layout, wanted.pages, wanted.sidecar)
        there = moved_store(got, ground.device)
        beside = there.table((targets + SEALED).astype(np.int32), may_seal=True).scales
        fault = torch.zeros(1, dtype=torch.int32, device=ground.device)
        assert beside is not None
        seal(there.table(sources).pages, there.table(targets).pages, beside, layout, fault)
        judge.true("a fault", fault.item() == 0)
        judge.same(
            f"{heads} heads of {dim}", torch.from_numpy(there.bytes()), torch.from_numpy(wanted.bytes())
        )


def _tags(ground: Ground, judge: Judge) -> None:
    """Thousands of pages of several requests, some with another tag, some that do not exist."""
    rng = np.random.default_rng(ground.seed + 3)
    count = 600 if ground.dry else 60000
    tags = rng.integers(1, 1 << 62, count // 2)
    page_ids = rng.integers(0, len(tags), count).astype(np.int32)
    expected = tags[page_ids]
    spoiled = rng.random(count) < 0.01
    expected[spoiled] ^= 1 << rng.integers(0, 62, int(spoiled.sum()))
    page_ids[rng.random(count) < 0.001] = len(tags)
    requests = rng.integers(0, 5, count).astype(np.int32)
    arrays = tags, page_ids, expected, requests, np.full(count, 7, np.uint8), np.arange(5, dtype=np.int32)
    given = [torch.from_numpy(array.copy()).to(ground.device) for array in arrays]
    check_tags(given[0], given[1], given[2], given[3], given[4], given[5])
    tags_reference(*arrays)
    judge.true("none was wrong", bool(arrays[4].any()))
    for name, place in (("bad", 4), ("faults", 5)):
        judge.same(name, given[place], torch.from_numpy(arrays[place]))


def _attend(ground: Ground, judge: Judge, shape: tuple[int, int, int, int], sealed: bool) -> None:
    rng = np.random.default_rng(ground.seed + 1)
    most = 20 if ground.dry else 3000
    places = rng.integers(0, most, 3 if ground.dry else 20).tolist()
    places[0] = most - 1
    pairs = most // (2 * shape[3])
    case = Case(*shape, places, tuple(range(0, pairs, 2)) if sealed else ())
    at = filled(case, ground.seed % 1000)
    there = moved_store(at.store, ground.device)
    limit, wanted = error_bound(at), exact(at)
    whole = _attended(ground, at, there, slice(None), sealed)
    judge.near("a prompt's rows" if len(places) > 8 else "rows", whole, wanted, limit)
    for count in (1,) if ground.dry else range(1, 9):
        part = slice(len(places) - count, len(places))
        judge.same(f"{count} rows", _attended(ground, at, there, part, sealed), whole[part])


def _attended(ground: Ground, at: Filled, there: MovedStore, rows: slice, sealed: bool) -> torch.Tensor:
    q, positions = at.q[rows].to(ground.device), at.positions[rows].to(ground.device)
    count, heads, head_dim = q.shape
    table = there.table(may_seal=sealed)
    context = table.pages.shape[-1] * at.store.layout.tokens
    floats = attention_floats(count, heads, context, may_seal=sealed)
    work = torch.full((floats,), torch.nan, device=ground.device)
    out = torch.full((count, heads * head_dim), torch.nan, device=ground.device)
    fault = torch.zeros(1, dtype=torch.int32, device=ground.device)
    attention(q, positions, table, at.store.layout, head_dim**-0.5, work, out, fault, context=context)
    assert fault.item() == 0
    return out
