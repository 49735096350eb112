"""How long a prefill's chunks are."""

from dataclasses import replace

import pytest

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import parse_budget
from ebbtide.engine.memory.chunks import ARENA_SHARE, plan_chunks
from ebbtide.engine.memory.plan import KV_FLOOR_TOKENS, MemoryPlan, Needs, make_plan

KIB, MIB = 1 << 10, 1 << 20
SHORT, LONG = 256, 512
EXTRA = 10 * MIB
LAYERS, EXPERTS = 4, 8
NEEDS = Needs(
    static_bytes=50 * MIB,
    transient_bytes=10 * MIB,
    page_bytes=64 * KIB,
    layers=LAYERS,
    tokens_per_page=64,
    context=1024,
    expert_pages=(160,) * LAYERS,
    experts=EXPERTS,
)
"""Experts of 320 MiB, a context's keys of 4 MiB."""
WHOLE = NEEDS.budget_bytes(NEEDS.all_expert_pages + NEEDS.kv_pages(KV_FLOOR_TOKENS))
"""All experts and the least KV, with short chunks."""


CHUNKS = [(SHORT, NEEDS.transient_bytes), (LONG, NEEDS.transient_bytes + EXTRA)]


def choose(budget: str, needs: Needs = NEEDS) -> tuple[int, MemoryPlan]:
    return plan_chunks(CHUNKS, needs, parse_budget(budget), ctx=0, available_bytes=1 << 40)


def plan(budget: str, needs: Needs = NEEDS) -> MemoryPlan:
    """With short chunks."""
    return make_plan(needs, parse_budget(budget), ctx=0, available_bytes=1 << 40)


@pytest.mark.parametrize("budget", ["auto", f"{(WHOLE + EXTRA) // KIB}KiB"])
def test_chunks_are_long_where_all_experts_fit_all_the_same(budget: str) -> None:
    chunk, chosen = choose(budget)
    assert (chunk, chosen.transient_bytes) == CHUNKS[1]
    assert chosen.is_whole


@pytest.mark.parametrize("budget", ["100%", f"{(WHOLE + EXTRA) // KIB - 64}KiB"])
def test_no_expert_is_paged_for_a_long_chunk(budget: str) -> None:
    chunk, chosen = choose(budget)
    assert (chunk, chosen.transient_bytes) == CHUNKS[0]
    assert chosen.is_whole


@pytest.mark.parametrize("budget", ["60%", "90%", "250MiB", "auto"])
def test_what_is_said_of_budgets_does_not_depend_on_the_chunk(budget: str) -> None:
    (chunk, chosen), short = choose(budget), plan(budget)
    assert chunk == LONG
    assert chosen.base_bytes == short.base_bytes
    assert chosen.smallest_budget_bytes == short.smallest_budget_bytes
    assert chosen.budget_bytes == short.budget_bytes + (EXTRA if budget == "auto" else 0)


@pytest.mark.parametrize(("more", "expected"), [(0, LONG), (-MIB, SHORT)])
def test_a_long_chunk_may_cost_a_sixteenth_of_the_arena(more: int, expected: int) -> None:
    arena = (ARENA_SHARE * EXTRA + more) // NEEDS.page_bytes
    chunk, _ = choose(f"{NEEDS.budget_bytes(arena) // KIB}KiB")
    assert chunk == expected


def test_the_smallest_budget_is_that_of_short_chunks() -> None:
    least = plan("100%").smallest_budget_bytes
    assert choose(f"{least // KIB}KiB")[0] == SHORT
    with pytest.raises(FitError):
        choose(f"{least // KIB - 64}KiB")


def test_a_context_is_not_shortened_for_a_long_chunk() -> None:
    needs = replace(NEEDS, context=1 << 20, expert_pages=())
    chunk, chosen = choose("400MiB", needs)
    assert chosen.ctx < needs.context
    assert (chunk, chosen.ctx) == (SHORT, plan("400MiB", needs).ctx)
