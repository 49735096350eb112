"""Paged attention against float64: sizes, formats, edges; a row's bits depend on what it sees alone."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import KernelError, KvLayout
from ebbtide.kernels.reference.kv import bf16_bits, bf16_floats, kv_write
from ebbtide.kernels.sealed import sealed_layout
from ebbtide.kernels.triton.attention import attention, attention_floats
from tests.helpers.triton_attention import (
    Case,
    Filled,
    device_table,
    error_bound,
    exact,
    filled,
    gathered,
    run,
)
from tests.kernels.triton.conftest import Compare

CASES = [
    Case(9, 3, 64, 48, [0]),  # a single key
    Case(2, 2, 32, 8, [7]),  # one whole vector of keys, no groups
    Case(2, 1, 32, 8, [255]),  # one whole split
    Case(2, 1, 32, 8, [256]),  # one key of a second split
    Case(4, 2, 32, 24, [600]),  # three splits, prime + 1
    Case(6, 2, 80, 24, [100]),  # sizes that are no power of two
    Case(7, 1, 96, 40, [112, 12]),
    Case(8, 1, 128, 32, [130]),  # every size of a group: 3, 1, 2, 7, 8, 5, 4
    Case(5, 1, 16, 16, [33, 34]),
    Case(4, 1, 16, 200, [390, 17]),  # a page longer than a tile
    Case(16, 1, 16, 16, [40]),  # more heads than a program has
    Case(2, 1, 256, 8, [11]),
    Case(2, 1, 32, 8, [700, 3, 255, 256, 3, 511, 0, 20]),  # eight rows, positions in no order
    Case(2, 1, 32, 8, list(range(250, 262))),  # a prompt's rows, across a split
    Case(2, 1, 16, 16, [5, 600, 256, 255, 0, 511, 512, 3, 100]),
    Case(1, 1, 32, 8, list(range(0, 13))),  # rows without a whole split
]
SEALED = [
    Case(2, 1, 32, 8, [15], (0,)),  # all of it
    Case(2, 1, 32, 8, [300], (0, 1, 5, 18)),  # here and there, in both splits
    Case(3, 1, 64, 24, [290, 47], (0, 1, 2, 3, 4, 5)),  # but for the tail; one row inside FP8
    Case(4, 2, 80, 8, [100], (1, 2)),
    Case(1, 1, 96, 24, [95], (1,)),
    Case(8, 1, 128, 16, [40], (0,)),
    Case(2, 1, 16, 8, [20, 280, 255, 256, 3, 100, 7, 31, 32], tuple(range(16))),  # a prompt's rows
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bf16_pages(case: Case, compare: Compare) -> None:
    at = filled(case)
    compare("attention bf16", run(at), exact(at), error_bound(at))


@pytest.mark.parametrize("case", SEALED, ids=str)
def test_mixed_pages(case: Case, compare: Compare) -> None:
    at = filled(case)
    compare("attention fp8", run(at), exact(at), error_bound(at))


@pytest.mark.parametrize("sealed", [(), (0, 1, 17)])
def test_a_row_has_the_same_bits_in_any_company(sealed: tuple[int, ...]) -> None:
    """Alone, with a few, as one of a prompt's rows, in any order: rows inside a split and at its edges."""
    at = filled(Case(2, 1, 16, 8, [30, 255, 256, 300, 512], sealed))
    alone = torch.cat([run(at, [row]) for row in range(5)])
    for rows in ([1, 0], slice(None), [4, 2, 3, 0, 1, 4, 2, 3, 0]):
        assert torch.equal(run(at, rows), alone[rows]), rows


def test_heads_have_the_same_bits_in_any_company() -> None:
    at = filled(Case(4, 1, 16, 8, [270]))
    together = run(at).reshape(4, 16)
    for head in range(4):
        alone = Filled(at.store, at.q[:, head : head + 1], at.positions)
        assert torch.equal(run(alone)[0], together[head])


# The same positions (0 to 95, or none) in FP8 with pages of 48, 8 and 24 tokens.
SAME = [((), (), ()), ((0,), tuple(range(6)), (0, 1))]


@pytest.mark.parametrize("pairs", SAME)
def test_page_places_and_sizes_do_not_change_bits(pairs: tuple[tuple[int, ...], ...]) -> None:
    """Nor whether a table may have FP8 pages when it has none."""
    outs = []
    for seed, tokens, sealed in zip((1, 1, 1), (48, 8, 24), pairs, strict=True):
        at = filled(Case(2, 1, 16, tokens, [100, 290], sealed), seed)
        outs.append(run(at, table=device_table(at.store, at.store.table, may_seal=True)))
        if not sealed:
            outs.append(run(at))
    for out in outs[1:]:
        assert torch.equal(out, outs[0])


@pytest.mark.parametrize("extra", [0, 7])
def test_a_later_row_cannot_leak_into_an_earlier_one(extra: int) -> None:
    """A NaN shows in every row that may see it, and in no other: as two rows, and as many."""
    case = Case(1, 1, 16, 8, [100, 101, *range(300, 300 + extra)])
    at = filled(case)
    clean = run(at)
    bad = np.full((1, 1, 16), np.nan, np.float32)
    kv_write(bad, bad, np.array([101], np.int32), at.store.table, at.store.layout, at.store.pages)
    out = run(at)
    assert torch.equal(out[0], clean[0]) and out[1:].isnan().all()


def test_a_vector_that_is_not_finite_shows_in_fp8() -> None:
    case = Case(1, 1, 16, 8, [14, 15, 40])
    for part in range(2):
        at = filled(case)
        kv = np.ones((2, 1, 1, 16), np.float32)
        kv[part, 0, 0, 3] = np.inf
        kv_write(kv[0], kv[1], np.array([15], np.int32), at.store.table, at.store.layout, at.store.pages)
        at.store.seal_pairs([0])
        out = run(at)
        assert torch.isfinite(out[0]).all() and out[1:].isnan().all()


def test_one_key_returns_its_value() -> None:
    at = filled(Case(4, 2, 32, 8, [0]))
    out = run(Filled(at.store, 40 * at.q, at.positions)).reshape(2, 2, 32)
    _, values = gathered(at)
    assert torch.equal(out, torch.from_numpy(values[0])[:, None, :].expand(2, 2, 32))


def test_far_scores_are_exact_zeros() -> None:
    """One key is so much better that every other weight is exactly 0: its value comes back bit by bit."""
    at = filled(Case(1, 1, 16, 8, [299]))
    k = np.zeros((300, 1, 16), np.float32)
    k[137] = 200.0
    v = bf16_floats(bf16_bits(np.random.default_rng(3).standard_normal((300, 1, 16)).astype(np.float32)))
    at.store.fill(k, v)
    out = run(Filled(at.store, torch.ones_like(at.q), at.positions))
    assert torch.equal(out[0], torch.from_numpy(v[137, 0]))


def test_queries_may_be_a_view_of_wider_rows() -> None:
    at = filled(Case(3, 1, 16, 8, list(range(20, 30))))
    fused = torch.full((10, 3 * 16 + 32), torch.nan)
    fused[:, :48] = at.q.reshape(10, -1)
    view = fused[:, :48].unflatten(1, (3, 16))
    assert torch.equal(run(Filled(at.store, view, at.positions)), run(at))


@pytest.mark.parametrize("rows", [2, 9])
def test_rows_of_different_sequences(rows: int) -> None:
    """Each row has a table of its own: parts of one store, so that every sequence has 32 positions."""
    at = filled(Case(2, 1, 16, 8, [32 * rows - 1]))
    tables = at.store.table.reshape(rows, 4)
    rng = np.random.default_rng(2)
    q = torch.from_numpy(rng.standard_normal((rows, 2, 16)).astype(np.float32))
    positions = torch.from_numpy(rng.integers(0, 32, rows).astype(np.int32))
    out = run(Filled(at.store, q, positions), table=device_table(at.store, tables, False))
    for row in range(rows):
        one = Filled(at.store, q[row : row + 1], positions[row : row + 1])
        assert torch.equal(run(one, table=device_table(at.store, tables[row], False)), out[row : row + 1])


@pytest.mark.parametrize(("rows", "may_seal"), [(1, False), (1, True), (8, True)])
def test_a_missing_page_is_reported_and_gives_no_number(rows: int, may_seal: bool) -> None:
    """Page 33 (positions 264 on) is gone; a row that ends before it is as it was."""
    at = filled(Case(1, 1, 16, 8, [263] + [270] * (rows - 1) + [300]))
    clean = run(at)
    at.store.table[33] = -1
    table = device_table(at.store, at.store.table, may_seal)
    out = run(at, table=table, faults=rows)
    assert torch.equal(out[0], clean[0]) and out[1:].isnan().all()


@pytest.mark.parametrize("bad", [-1, -300, 600])
@pytest.mark.parametrize("rows", [1, 9])
def test_a_position_that_is_not_in_the_table_gives_no_number(bad: int, rows: int) -> None:
    at = filled(Case(1, 1, 16, 8, [40] * (rows + 1)))
    clean = run(at)
    at.positions[rows] = bad
    table = device_table(at.store, at.store.table, False)
    out, fault = torch.zeros(rows + 1, 16), torch.zeros(1, dtype=torch.int32)
    work = torch.full((attention_floats(rows + 1, 1, 48),), torch.nan)
    attention(at.q, at.positions, table, at.store.layout, 0.25, work, out, fault, context=48)
    assert torch.equal(out[:rows], clean[:rows]) and out[rows].isnan().all() and fault.item() >= 1


def test_no_rows_is_no_work_and_other_layouts_are_refused() -> None:
    at = filled(Case(2, 1, 16, 8, [10]))
    assert run(at, slice(0, 0)).shape == (0, 32)
    at.store.layout = sealed_layout(KvLayout(1, 16, 8))
    with pytest.raises(KernelError, match="not a BF16 layout"):
        run(at)
