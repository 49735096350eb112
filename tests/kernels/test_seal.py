"""Sealed pages: what is written where, and that mixed pages read back within what FP8 allows."""

import numpy as np
import pytest

from ebbtide.kernels.ops import F32, KernelError, KvLayout
from ebbtide.kernels.reference.e4m3 import encode
from ebbtide.kernels.reference.kv import bf16_bits, bf16_floats, gather_kv
from ebbtide.kernels.reference.seal import fp8_parts, gather_mixed, seal
from ebbtide.kernels.sealed import scale_bytes, sealed_layout
from tests.helpers.sealed_store import POISON, SealedStore

LAYOUT = KvLayout(3, 32, 24)


def filled(context: int, layout: KvLayout = LAYOUT) -> tuple[SealedStore, F32, F32]:
    rng = np.random.default_rng(context)
    shape = (2, context, layout.heads, layout.head_dim)
    sizes = rng.uniform(0.01, 30, shape[:-1])[..., None]
    k, v = (rng.standard_normal(shape) * sizes).astype(np.float32)
    store = SealedStore(layout, context)
    store.fill(k, v)
    return store, bf16_floats(bf16_bits(k)), bf16_floats(bf16_bits(v))


def test_a_page_of_twice_the_tokens_fits_where_the_bf16_page_was() -> None:
    layout = sealed_layout(LAYOUT)
    assert (layout.heads, layout.head_dim, layout.tokens, layout.format) == (3, 32, 48, "fp8")
    assert scale_bytes(LAYOUT) == 2 * 3 * 48


def test_sealed_runs_hold_each_vectors_own_codes() -> None:
    store, k, v = filled(96)
    store.seal_pairs([1])
    parts = fp8_parts(LAYOUT, store.pages, store.sidecar, int(store.table[2]) & 0xFFFF)
    for token in range(48):
        for head in range(3):
            for x, codes, scales in (
                (k, parts[0][head, :, token], parts[2]),
                (v, parts[1][head, token], parts[3]),
            ):
                wanted, byte = encode(x[48 + token, head])
                assert (codes == wanted).all() and scales[head, token] == byte


@pytest.mark.parametrize("numbers", [[], [0], [1], [0, 1]])
def test_mixed_pages_read_back(numbers: list[int]) -> None:
    store, k, v = filled(101)
    whole = gather_kv(101, store.table, LAYOUT, store.pages)
    store.seal_pairs(numbers)
    for got, exact, before in zip(
        gather_mixed(101, store.table, LAYOUT, store.pages, store.sidecar), (k, v), whole, strict=True
    ):
        sealed = np.isin(np.arange(101) // 48, numbers)
        assert (got[~sealed] == exact[~sealed]).all() and (before == exact).all()
        step = np.abs(exact).max(axis=-1, keepdims=True) / 224 * 2.0**-9
        assert (np.abs(got - exact) <= np.maximum(np.abs(exact) / 16, step))[sealed].all()


def test_sealing_touches_its_targets_only() -> None:
    store, _, _ = filled(96)
    sources, targets = store.pairs([0, 1])
    before = store.bytes()
    seal(sources, targets, LAYOUT, store.pages, store.sidecar)
    changed = before != store.bytes()
    for target in targets.tolist():
        slab, place = divmod(target, store.pages.pages_per_slab)
        page = slab * len(store.memory[0]) + place * store.pages.page_bytes
        record = sum(map(len, store.memory)) + slab * len(store.scales[0]) + place * scale_bytes(LAYOUT)
        for start, size in ((page, 4 * 3 * 32 * 24), (record, scale_bytes(LAYOUT))):
            assert (store.bytes()[start : start + size] != POISON).any()
            changed[start : start + size] = False
    assert not changed.any()


def test_refuses_pages_that_are_sealed_already() -> None:
    store, _, _ = filled(96)
    sources, targets = store.pairs([0])
    with pytest.raises(KernelError, match="not supported"):
        seal(sources, targets, sealed_layout(LAYOUT), store.pages, store.sidecar)
