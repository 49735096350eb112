"""Paged attention against the float64 reference; a row's bits depend on that row alone."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.kernels.ops import F32, I32, KernelError, KvLayout
from ebbtide.kernels.reference import attention as reference
from ebbtide.kernels.reference.kv import bf16_bits, bf16_floats, gather_kv, kv_write
from tests.helpers.attention_kernels import compiled, isas, workspace_shape
from tests.helpers.kv_store import KvStore

UNIT = 2.0**-24


class Case(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    tokens: int
    positions: list[int]

    def __str__(self) -> str:
        first, last, rows = self.positions[0], self.positions[-1], len(self.positions)
        return f"{self.heads}/{self.kv_heads}x{self.head_dim}-T{self.tokens}-{rows}rows-{first}..{last}"


CASES = [
    Case(9, 3, 64, 48, [0]),  # a single key
    Case(9, 3, 64, 48, [7]),  # one whole vector of keys
    Case(9, 3, 64, 48, list(range(0, 17))),  # an odd number of rows from the start
    Case(9, 3, 64, 48, list(range(40, 57))),  # across a page
    Case(9, 3, 64, 48, list(range(250, 263))),  # across a chunk
    Case(9, 3, 64, 48, [1023]),  # decode, whole chunks
    Case(9, 3, 64, 48, [1100]),
    Case(32, 4, 128, 32, list(range(500, 531))),
    Case(32, 4, 128, 32, [613]),
    Case(4, 4, 80, 24, [300, 301]),  # no groups, a page of an odd number of vectors
    Case(6, 2, 96, 8, list(range(60, 71))),  # the smallest page
    Case(16, 1, 32, 200, list(range(390, 397))),  # one KV head; a page longer than a tile
    Case(2, 1, 256, 16, [517, 518, 519]),
    Case(50, 1, 16, 16, [33, 34]),  # more heads in a group than a block holds pairs
    Case(9, 3, 64, 48, [700, 3, 255, 256, 3, 900, 0]),  # positions in no order
    Case(3, 3, 64, 48, list(range(0, 400, 3))),  # several row blocks with gaps
]


def filled(case: Case, seed: int = 1, poison_beyond: bool = True) -> tuple[KvStore, F32, I32]:
    """Pages with random K and V at 0 .. max(positions) (NaN behind), queries [M, H, d] and positions [M]."""
    rng = np.random.default_rng(seed)
    count = max(case.positions) + 1
    store = KvStore(KvLayout(case.kv_heads, case.head_dim, case.tokens), count + (0 if poison_beyond else 64))
    k, v = (rng.standard_normal((count, case.kv_heads, case.head_dim)).astype(np.float32) for _ in range(2))
    kv_write(k, v, np.arange(count, dtype=np.int32), store.table, store.layout, store.pages)
    q = rng.standard_normal((len(case.positions), case.heads, case.head_dim)).astype(np.float32)
    return store, q, np.array(case.positions, np.int32)


def run(case: Case, store: KvStore, q: F32, positions: I32, isa: str, threads: int = 2) -> F32:
    """out [M, H * d] of one call."""
    shape = workspace_shape(rows=len(q), heads=case.heads, head_dim=case.head_dim)
    out = np.full((len(q), case.heads * case.head_dim), np.nan, np.float32)
    with compiled(isa, threads, shape) as ops:
        ops.attention(q, positions, store.table, store.layout, store.pages, case.head_dim**-0.5, out)
    return out


def error_bound(case: Case, store: KvStore, q: F32, positions: I32) -> float:
    """Largest error that f32 rounding can make.

    A score is a chain of d products: it is off by at most d + 1 units of sum |q k| * scale. That changes
    e^score by the same relative amount, twice (numerator and sum). The sums add one unit per key of a
    chunk, the folds four per chunk, the exponential a few. Every multiply-add counts twice, for kernels that
    round it twice.
    """
    keys, values = gather_kv(int(positions.max()) + 1, store.table, store.layout, store.pages)
    group = case.heads // case.kv_heads
    grouped = np.abs(q).reshape(len(q), case.kv_heads, group, case.head_dim)
    magnitude = np.einsum("mkgd,nkd->mkgn", grouped, np.abs(keys)).max() * case.head_dim**-0.5
    chunks = int(positions.max()) // 256 + 1
    units = 2 * (case.head_dim + 1) * magnitude + 2 * 256 + 8 * chunks + 16
    return float(2 * UNIT * units * np.abs(values).max())


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_the_reference(case: Case, isa: str) -> None:
    store, q, positions = filled(case)
    before = store.bytes()
    expected = np.empty((len(q), case.heads * case.head_dim), np.float32)
    reference.attention(q, positions, store.table, store.layout, store.pages, case.head_dim**-0.5, expected)
    got = run(case, store, q, positions, isa)
    assert np.abs(got - expected).max() <= error_bound(case, store, q, positions)
    assert (store.bytes() == before).all(), "attention wrote into a page"


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_alone_has_the_same_bits(case: Case, isa: str) -> None:
    store, q, positions = filled(case)
    together = run(case, store, q, positions, isa, threads=2)
    for row in range(len(q)):
        alone = run(case, store, q[row : row + 1], positions[row : row + 1], isa, threads=1)
        assert (alone[0].view(np.uint32) == together[row].view(np.uint32)).all(), f"row {row}"


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("threads", [1, 3, 5])
@pytest.mark.parametrize("rows", [1, 2, 33, 70])
def test_threads_do_not_change_bits(rows: int, threads: int, isa: str) -> None:
    case = Case(9, 3, 64, 48, list(range(1100, 1100 + rows)))
    store, q, positions = filled(case)
    expected = run(case, store, q, positions, isa, threads=2)
    assert (run(case, store, q, positions, isa, threads).view(np.uint32) == expected.view(np.uint32)).all()


@pytest.mark.parametrize("isa", isas())
def test_page_size_and_place_do_not_change_bits(isa: str) -> None:
    outs = []
    for tokens in (8, 48, 200):
        case = Case(9, 3, 64, tokens, list(range(290, 310)))
        store, q, positions = filled(case)
        outs.append(run(case, store, q, positions, isa))
    assert (outs[0].view(np.uint32) == outs[1].view(np.uint32)).all()
    assert (outs[0].view(np.uint32) == outs[2].view(np.uint32)).all()


@pytest.mark.parametrize("isa", isas())
def test_a_later_row_cannot_leak_into_an_earlier_one(isa: str) -> None:
    case = Case(9, 3, 64, 48, [100, 101])
    store, q, positions = filled(case)
    clean = run(case, store, q, positions, isa)
    bad = np.full((1, 3, 64), np.nan, np.float32)
    kv_write(bad, bad, np.array([101], np.int32), store.table, store.layout, store.pages)
    poisoned = run(case, store, q, positions, isa)
    assert (poisoned[0].view(np.uint32) == clean[0].view(np.uint32)).all()
    assert np.isnan(poisoned[1]).all(), "a NaN that a row may see has to show"


@pytest.mark.parametrize("isa", isas())
def test_one_key_returns_its_value(isa: str) -> None:
    case = Case(4, 2, 32, 8, [0])
    store, q, positions = filled(case)
    _, values = gather_kv(1, store.table, store.layout, store.pages)
    got = run(case, store, 40 * q, positions, isa).reshape(2, 2, 32)
    assert (got == values[0][:, None, :]).all()


@pytest.mark.parametrize("isa", isas())
def test_far_scores_are_exact_zeros(isa: str) -> None:
    """One key is so much better that every other weight is exactly 0: its value comes back bit by bit."""
    case = Case(1, 1, 16, 8, [299])
    store, q, positions = filled(case)
    k = np.zeros((300, 1, 16), np.float32)
    k[137] = 200.0
    v = bf16_floats(bf16_bits(np.random.default_rng(3).standard_normal((300, 1, 16)).astype(np.float32)))
    kv_write(k, v, np.arange(300, dtype=np.int32), store.table, store.layout, store.pages)
    got = run(case, store, np.ones_like(q), positions, isa)
    assert (got[0] == v[137, 0]).all()


@pytest.mark.parametrize("isa", isas())
def test_queries_may_be_a_view_of_wider_rows(isa: str) -> None:
    case = Case(9, 3, 64, 48, list(range(20, 33)))
    store, q, positions = filled(case)
    fused = np.full((len(q), 9 * 64 + 2 * 3 * 64), np.nan, np.float32)
    fused[:, : 9 * 64] = q.reshape(len(q), -1)
    view = fused[:, : 9 * 64].reshape(len(q), 9, 64)
    assert np.shares_memory(view, fused)
    assert (run(case, store, view, positions, isa) == run(case, store, q, positions, isa)).all()


def test_no_rows_is_no_work() -> None:
    case = Case(9, 3, 64, 48, [10])
    store, q, positions = filled(case)
    assert run(case, store, q[:0], positions[:0], isas()[-1]).shape == (0, 9 * 64)


def with_hole(table: I32) -> NDArray[np.int32]:
    changed = table.copy()
    changed[0] = -1
    return changed


def test_refuses_what_it_cannot_do() -> None:
    case = Case(9, 3, 64, 48, [60])
    store, q, positions = filled(case)
    out = np.empty((1, 9 * 64), np.float32)
    fp8 = KvLayout(3, 64, 96, "fp8")
    big_id = store.table.copy()
    big_id[1] = 10**6
    good = (q, positions, store.table, store.layout, store.pages, 0.125, out)
    with compiled(isas()[-1], 1, workspace_shape(rows=1, heads=9, head_dim=64)) as ops:
        ops.attention(*good)
        bad_calls = {
            "not supported": (*good[:3], fp8, *good[4:]),
            "out of range": (*good[:2], with_hole(store.table), *good[3:]),
            "index is out": (*good[:2], big_id, *good[3:]),
            "an index": (q, np.array([-1], np.int32), *good[2:]),
            "range": (*good[:2], store.table[:1], *good[3:]),
            "attention: q": (q[:, :, :32], *good[1:]),
            "float32": (q.astype(np.float64), *good[1:]),
            "contiguous": (q[:, :, ::2].repeat(2, axis=2)[:, ::-1], *good[1:]),
            "sizes do not match": (q[:, :8], *good[1:6], np.empty((1, 8 * 64), np.float32)),
        }
        for message, arguments in bad_calls.items():
            with pytest.raises(KernelError, match=message):
                ops.attention(*arguments)  # type: ignore[arg-type]
        ops.set_workspace(np.empty(1024, np.uint8))
        with pytest.raises(KernelError, match="workspace is too small"):
            ops.attention(*good)
    with pytest.raises(KernelError, match="not supported"):
        reference.attention(*bad_calls["not supported"])  # type: ignore[arg-type]
