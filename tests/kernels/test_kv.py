"""KV pages: what is written where, and that nothing else changes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ebbtide.kernels.ops import F32, I32, KernelError, KvLayout
from ebbtide.kernels.reference import kv as reference
from tests.helpers.attention_kernels import compiled, isas, workspace_shape
from tests.helpers.kv_store import KvStore

# layout, context, positions: page edges, odd numbers of rows, one row, enough values for several tasks
CASES = [
    (KvLayout(3, 64, 48), 200, list(range(40, 53))),
    (KvLayout(3, 64, 48), 49, [48]),
    (KvLayout(4, 128, 32), 100, list(range(0, 100))),
    (KvLayout(1, 16, 8), 30, [29, 3, 15, 16]),
    (KvLayout(2, 80, 24), 25, [0, 23, 24]),
]


def made(layout: KvLayout, rows: int) -> tuple[F32, F32]:
    shape = (2, rows, layout.heads, layout.head_dim)
    k, v = np.random.default_rng(rows).standard_normal(shape).astype(np.float32)
    return k, v


def write(store: KvStore, k: F32, v: F32, positions: I32, isa: str, threads: int = 2) -> None:
    with compiled(isa, threads, workspace_shape()) as ops:
        ops.kv_write(k, v, positions, store.table, store.layout, store.pages)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("layout", "context", "places"), CASES)
def test_every_byte_is_as_in_the_reference(
    layout: KvLayout, context: int, places: list[int], isa: str
) -> None:
    k, v = made(layout, len(places))
    positions = np.array(places, np.int32)
    expected, got = KvStore(layout, context), KvStore(layout, context)
    reference.kv_write(k, v, positions, expected.table, layout, expected.pages)
    write(got, k, v, positions, isa)
    assert (got.bytes() == expected.bytes()).all()


@pytest.mark.parametrize("isa", isas())
def test_reads_back_what_was_written(isa: str) -> None:
    layout = KvLayout(3, 64, 48)
    store = KvStore(layout, 130)
    k, v = made(layout, 130)
    write(store, k, v, np.arange(130, dtype=np.int32), isa)
    keys, values = reference.gather_kv(130, store.table, layout, store.pages)
    assert (torch.from_numpy(keys) == torch.from_numpy(k).bfloat16().float()).all()
    assert (torch.from_numpy(values) == torch.from_numpy(v).bfloat16().float()).all()


@pytest.mark.parametrize("isa", isas())
def test_rows_may_be_views_of_wider_rows(isa: str) -> None:
    layout = KvLayout(2, 16, 8)
    fused = np.random.default_rng(5).standard_normal((9, 7 + 64)).astype(np.float32)
    k, v = (fused[:, 7 + 32 * i : 39 + 32 * i].reshape(9, 2, 16) for i in range(2))
    assert np.shares_memory(k, fused)
    positions = np.arange(9, dtype=np.int32)
    expected, got = KvStore(layout, 9), KvStore(layout, 9)
    reference.kv_write(k, v, positions, expected.table, layout, expected.pages)
    write(got, k, v, positions, isa)
    assert (got.bytes() == expected.bytes()).all()


def test_a_later_row_at_the_same_position_wins() -> None:
    layout = KvLayout(1, 16, 8)
    store = KvStore(layout, 8)
    k, v = made(layout, 2)
    write(store, k, v, np.array([3, 3], np.int32), isas()[-1])
    keys, _ = reference.gather_kv(4, store.table, layout, store.pages)
    assert (keys[3] == reference.bf16_floats(reference.bf16_bits(k[1]))).all()


# NaNs, infinities, the largest and the smallest; then ties, their neighbours and tiny values.
SPECIAL_BITS = """
    7F800001 FF800001 7FFFFFFF FFC00000 7F800000 FF800000 7F7FFFFF 00000001
    3F808000 3F818000 3F808001 3F807FFF 80000000 00007FFF 00008000 00018000
"""
SPECIAL = np.array([int(word, 16) for word in SPECIAL_BITS.split()], np.uint32)


@pytest.mark.parametrize("isa", isas())
def test_special_values(isa: str) -> None:
    """NaNs stay NaNs, also with a payload in the lower half only; ties go to even; the largest overflow."""
    layout = KvLayout(1, 16, 8)
    expected, got = KvStore(layout, 1), KvStore(layout, 1)
    x = SPECIAL.view(np.float32).reshape(1, 1, 16)
    position = np.zeros(1, np.int32)
    reference.kv_write(x, x, position, expected.table, layout, expected.pages)
    write(got, x, x, position, isa)
    assert (got.bytes() == expected.bytes()).all()
    keys, _ = reference.gather_kv(1, got.table, layout, got.pages)
    wanted = torch.from_numpy(x.copy()).bfloat16().float().numpy()
    assert np.array_equal(keys, wanted, equal_nan=True)


@given(arrays(np.uint32, 64))
def test_reference_rounds_like_torch(bits: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    x = bits.view(np.float32)
    got = reference.bf16_floats(reference.bf16_bits(x))
    assert np.array_equal(got, torch.from_numpy(x.copy()).bfloat16().float().numpy(), equal_nan=True)


@given(st.integers(1, 6), st.integers(1, 8), st.sampled_from([8, 16, 24, 48]), st.integers(1, 120), st.data())
def test_random_shapes(heads: int, width: int, tokens: int, context: int, data: st.DataObject) -> None:
    layout = KvLayout(heads, 16 * width, tokens)
    places = data.draw(st.lists(st.integers(0, context - 1), min_size=1, max_size=20))
    k, v = made(layout, len(places))
    positions = np.array(places, np.int32)
    expected, got = KvStore(layout, context), KvStore(layout, context)
    reference.kv_write(k, v, positions, expected.table, layout, expected.pages)
    write(got, k, v, positions, isas()[-1], threads=1)
    assert (got.bytes() == expected.bytes()).all()


@given(st.integers(0, 70), st.integers(22, 150), st.sampled_from([8, 24, 48]), st.booleans())
def test_a_prompt_is_written_page_by_page(start: int, rows: int, tokens: int, broken: bool) -> None:
    """From anywhere in a page on, by several threads; with a gap in the positions too."""
    layout = KvLayout(3, 64, tokens)
    positions = np.arange(start, start + rows, dtype=np.int32)
    positions[rows // 2 :] += broken
    context = int(positions[-1]) + 1
    k, v = made(layout, rows)
    expected, got = KvStore(layout, context), KvStore(layout, context)
    reference.kv_write(k, v, positions, expected.table, layout, expected.pages)
    write(got, k, v, positions, isas()[-1])
    assert (got.bytes() == expected.bytes()).all()


def test_refuses_what_it_cannot_do() -> None:
    layout = KvLayout(3, 64, 48)
    store = KvStore(layout, 100)
    k, v = made(layout, 2)
    before = store.bytes()
    with compiled(isas()[-1], 1, workspace_shape()) as ops:
        for bad in (-1, 48 * len(store.table)):
            with pytest.raises(KernelError, match="out of range"):
                ops.kv_write(k, v, np.array([0, bad], np.int32), store.table, layout, store.pages)
        good = np.array([0, 1], np.int32)
        hole = store.table.copy()
        hole[0] = -1
        with pytest.raises(KernelError, match="out of range"):
            ops.kv_write(k, v, good, hole, layout, store.pages)
        with pytest.raises(KernelError, match="not supported"):
            ops.kv_write(k, v, good, store.table, KvLayout(3, 64, 96, "fp8"), store.pages)
        with pytest.raises(KernelError, match="sizes do not match"):
            ops.kv_write(k, v, good, store.table, KvLayout(3, 64, 96), store.pages)  # larger than the pages
        with pytest.raises(KernelError, match="kv_write: k"):
            ops.kv_write(k[:, :2], v[:, :2], good, store.table, layout, store.pages)
    assert (store.bytes() == before).all()
    with pytest.raises(KernelError, match="not supported"):
        reference.kv_write(k, v, good, store.table, KvLayout(3, 64, 96, "fp8"), store.pages)
