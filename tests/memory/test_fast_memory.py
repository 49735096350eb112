from dataclasses import replace

import pytest

from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.budget import Budget
from ebbtide.engine.memory.fast_memory import ExpertBank, FastMemory, open_memory
from ebbtide.engine.memory.ledger import LedgerError
from ebbtide.engine.memory.plan import MemoryPlan, Needs, make_plan
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.memory_fakes import EXPERT_PAGES, EXPERTS, KV, LAYERS, PAGE, FakeSource, ids, layouts

NEEDS = Needs(
    static_bytes=50_000,
    transient_bytes=20_000,
    page_bytes=PAGE,
    layers=LAYERS,
    tokens_per_page=KV.tokens,
    context=640,
    expert_pages=tuple(EXPERT_PAGES),
    experts=EXPERTS,
)


def plan(percent: float) -> MemoryPlan:
    return make_plan(NEEDS, Budget("percent", percent), ctx=0, available_bytes=1 << 30)


def build(percent: float, *, policy: str = "lru") -> FastMemory:
    bank = ExpertBank(layouts(), EXPERTS, FakeSource())
    return open_memory(plan(percent), KV, layers=LAYERS, bank=bank, policy=policy)


@pytest.mark.parametrize("percent", [100, 60, 35])
def test_a_chat_within_the_ledger(percent: float) -> None:
    memory = build(percent)
    assert memory.pager is not None
    assert memory.arena.mapped_bytes == 0, "nothing is touched before it is needed"
    memory.pager.warm()
    sequence = memory.prefixes.begin(range(100), exact=True)
    memory.pool.extend(sequence, 100, Provenance(Lane.PREFILL))
    for layer in range(LAYERS):
        assert list(memory.pager.groups(layer, ids(0, 2, 5)))
    memory.check_integrity()
    figures = memory.ledger.memory(12345)
    assert figures.static_bytes == 50_000 and figures.transient_bytes == 20_000
    assert figures.kv_bytes == 7 * LAYERS * PAGE
    assert figures.process_peak_bytes == 12345
    assert figures.budget_bytes == plan(percent).budget_bytes
    used = figures.static_bytes + figures.transient_bytes + figures.expert_bytes + figures.kv_bytes
    assert figures.free_bytes == figures.budget_bytes - used
    assert used <= figures.peak_bytes <= figures.budget_bytes
    assert (figures.expert_hit_rate == 1.0) == (percent == 100)
    assert (figures.bytes_paged_in == 0) == (percent == 100)
    assert sum(figures.width_histogram.values()) == 2 * LAYERS * EXPERTS
    memory.close()


@pytest.mark.parametrize("width", [4, 1])
def test_a_budget_holds_more_experts_at_a_lower_width(width: int) -> None:
    narrow = replace(NEEDS, expert_pages=tuple(pair.page_count(width) for pair in layouts()))
    budget = Budget("bytes", plan(35).budget_bytes)
    planned = make_plan(narrow, budget, ctx=0, available_bytes=1 << 30)
    assert planned.smallest_budget_bytes < plan(35).smallest_budget_bytes
    assert planned.expert_bytes < plan(35).expert_bytes
    bank = ExpertBank(layouts(), EXPERTS, FakeSource(), width)
    memory = open_memory(planned, KV, layers=LAYERS, bank=bank)
    full = build(35)
    assert memory.pager is not None and full.pager is not None
    assert sum(memory.pager.quotas) > sum(full.pager.quotas)
    assert memory.table is not None and full.table is not None
    assert full.table.is_exact and not memory.table.is_exact
    memory.pager.warm()
    memory.check_integrity()
    figures = memory.ledger.memory(None)
    each = [pair.page_count(width) * PAGE for pair in layouts()]
    held = zip(memory.pager.quotas, each, strict=True)
    assert figures.expert_bytes == sum(quota * nbytes for quota, nbytes in held)
    assert figures.peak_bytes <= figures.budget_bytes
    memory.close()
    full.close()


def test_peak_remembers_what_was_given_back() -> None:
    memory = build(100)
    sequence = memory.pool.new_sequence()
    memory.pool.extend(sequence, 64, Provenance(Lane.PREFILL))
    memory.pool.release(sequence)
    figures = memory.ledger.memory(None)
    assert figures.kv_bytes == 0 and figures.process_peak_bytes == 0
    assert figures.peak_bytes == 70_000 + 4 * LAYERS * PAGE
    memory.close()


def test_the_ledger_notices_an_overrun() -> None:
    honest = plan(100)
    bank = ExpertBank(layouts(), EXPERTS, FakeSource())
    memory = open_memory(
        replace(honest, budget_bytes=honest.budget_bytes - PAGE), KV, layers=LAYERS, bank=bank
    )
    memory.arena.allocate(honest.total_pages - 1, Tenant.KV)
    memory.ledger.check()
    memory.arena.allocate(1, Tenant.KV)
    with pytest.raises(LedgerError, match="the budget is"):
        memory.ledger.check()
    memory.close()


def test_a_dense_model() -> None:
    dense = make_plan(
        replace(NEEDS, expert_pages=(), experts=0), Budget("auto"), ctx=0, available_bytes=1 << 30
    )
    memory = open_memory(dense, KV, layers=LAYERS)
    sequence = memory.pool.new_sequence()
    memory.pool.extend(sequence, 640, Provenance(Lane.PREFILL))
    memory.check_integrity()
    figures = memory.ledger.memory(None)
    assert figures.expert_bytes == 0 and figures.expert_hit_rate == 1.0 and figures.width_histogram == {}
    assert figures.free_bytes == 0
    memory.close()


def test_lfu_can_be_chosen() -> None:
    memory = build(35, policy="lfu")
    assert memory.pager is not None
    assert list(memory.pager.groups(0, ids(1)))
    memory.check_integrity()
    memory.close()
