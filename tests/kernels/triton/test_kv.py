"""Keys and values in their pages: every byte as in the reference, and nothing else changed."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import F32, I32, KernelError, KvLayout
from ebbtide.kernels.reference import kv as reference
from ebbtide.kernels.sealed import sealed_layout
from ebbtide.kernels.triton.kv import kv_write
from ebbtide.kernels.triton.kv_tables import KvTable, kv_addresses
from tests.helpers.sealed_store import SealedStore


def write(store: SealedStore, k: F32, v: F32, positions: I32, table: I32 | None = None) -> int:
    """Faults of one call."""
    fault = torch.zeros(1, dtype=torch.int32)
    addresses = torch.from_numpy(kv_addresses(store.table if table is None else table, store.pages))
    rows = torch.from_numpy(k), torch.from_numpy(v), torch.from_numpy(positions)
    kv_write(*rows, KvTable(addresses), store.layout, fault)
    return int(fault.item())


def made(layout: KvLayout, rows: int) -> tuple[F32, F32]:
    shape = (2, rows, layout.heads, layout.head_dim)
    k, v = np.random.default_rng(rows).standard_normal(shape).astype(np.float32)
    return k, v


# One token; page edges; odd numbers of rows, one past a tile; every head size; positions in no order.
CASES = [
    (KvLayout(3, 64, 48), 1, [0]),
    (KvLayout(3, 64, 48), 200, list(range(40, 53))),
    (KvLayout(3, 64, 48), 49, [47, 48]),
    (KvLayout(4, 128, 24), 100, list(range(7, 24))),
    (KvLayout(1, 32, 8), 30, [29, 3, 15, 16]),
    (KvLayout(2, 80, 24), 25, [0, 23, 24]),
    (KvLayout(2, 96, 40), 97, list(range(60, 97))),
    (KvLayout(1, 16, 8), 9, [8]),
]


@pytest.mark.parametrize(("layout", "context", "places"), CASES)
def test_every_byte_is_as_in_the_reference(layout: KvLayout, context: int, places: list[int]) -> None:
    k, v = made(layout, len(places))
    positions = np.array(places, np.int32)
    wanted, got = SealedStore(layout, context), SealedStore(layout, context)
    reference.kv_write(k, v, positions, wanted.table, layout, wanted.pages)
    assert write(got, k, v, positions) == 0
    assert (got.bytes() == wanted.bytes()).all()


def test_rows_may_be_views_of_wider_rows() -> None:
    layout = KvLayout(2, 16, 8)
    fused = np.random.default_rng(5).standard_normal((9, 7 + 64)).astype(np.float32)
    k, v = (fused[:, 7 + 32 * i : 39 + 32 * i].reshape(9, 2, 16) for i in range(2))
    positions = np.arange(9, dtype=np.int32)
    wanted, got = SealedStore(layout, 9), SealedStore(layout, 9)
    reference.kv_write(k, v, positions, wanted.table, layout, wanted.pages)
    assert np.shares_memory(k, fused) and write(got, k, v, positions) == 0
    assert (got.bytes() == wanted.bytes()).all()


def test_rows_of_different_sequences() -> None:
    layout = KvLayout(2, 32, 8)
    k, v = made(layout, 5)
    positions = np.array([3, 0, 15, 8, 7], np.int32)
    wanted, got = SealedStore(layout, 80), SealedStore(layout, 80)
    for row in range(5):
        part, place = slice(row, row + 1), wanted.table[2 * row : 2 * row + 2]
        reference.kv_write(k[part], v[part], positions[part], place, layout, wanted.pages)
    assert write(got, k, v, positions, got.table.reshape(5, 2)) == 0
    assert (got.bytes() == wanted.bytes()).all()


# NaNs, infinities, the largest and the smallest; then ties, their neighbours and tiny values.
SPECIAL_BITS = """
    7F800001 FF800001 7FFFFFFF FFC00000 7F800000 FF800000 7F7FFFFF 00000001
    3F808000 3F818000 3F808001 3F807FFF 80000000 00007FFF 00008000 00018000
"""


def test_special_values() -> None:
    layout = KvLayout(1, 16, 8)
    bits = np.array([int(word, 16) for word in SPECIAL_BITS.split()], np.uint32)
    x = bits.view(np.float32).reshape(1, 1, 16)
    position = np.zeros(1, np.int32)
    wanted, got = SealedStore(layout, 1), SealedStore(layout, 1)
    reference.kv_write(x, x, position, wanted.table, layout, wanted.pages)
    write(got, x, x, position)
    assert (got.bytes() == wanted.bytes()).all()


@pytest.mark.parametrize("rows", [3, 17])
def test_a_row_without_a_page_is_reported_and_not_stored(rows: int) -> None:
    layout = KvLayout(2, 32, 16)
    k, v = made(layout, rows)
    store = SealedStore(layout, 96)
    store.fill(*made(layout, 96))
    store.seal_pairs([2])
    store.table[1] = -1
    before = store.bytes()
    bad = np.array([-1, 96, 16, 17, 64, 95, 31] * 3, np.int32)[:rows]
    assert write(store, k, v, bad) == rows
    assert (store.bytes() == before).all()
    bad[1] = 40
    assert write(store, k, v, bad) == rows - 1
    assert (store.bytes() != before).any()


def test_no_rows_is_no_work_and_other_layouts_are_refused() -> None:
    layout = KvLayout(2, 32, 16)
    store = SealedStore(layout, 16)
    k, v = made(layout, 0)
    assert write(store, k, v, np.empty(0, np.int32)) == 0
    store.layout = sealed_layout(layout)
    with pytest.raises(KernelError, match="not a BF16 layout"):
        write(store, k, v, np.empty(0, np.int32))
