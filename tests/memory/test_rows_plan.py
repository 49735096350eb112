"""Where the token embedding is left on disk, and what its bytes are used for then."""

from dataclasses import replace

import pytest

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import parse_budget
from ebbtide.engine.memory.chunks import plan_chunks
from ebbtide.engine.memory.plan import KV_FLOOR_TOKENS, MemoryPlan, Needs
from ebbtide.engine.memory.rows_plan import RowsOnDisk, plan_rows

KIB, MIB = 1 << 10, 1 << 20
ROWS = RowsOnDisk(matrix_bytes=30 * MIB, scratch_bytes=2 * MIB)
FREED = 28 * MIB
NEEDS = Needs(
    static_bytes=50 * MIB,
    transient_bytes=10 * MIB,
    page_bytes=64 * KIB,
    layers=4,
    tokens_per_page=64,
    context=1024,
    expert_pages=(160,) * 4,
    experts=8,
)
CHUNKS = [(256, NEEDS.transient_bytes), (512, NEEDS.transient_bytes + 10 * MIB)]
WHOLE = NEEDS.budget_bytes(NEEDS.all_expert_pages + NEEDS.kv_pages(KV_FLOOR_TOKENS))
"""Everything but a longer context."""
PLENTY = 1 << 40


def choose(
    budget: str, *, rows: RowsOnDisk | None = ROWS, needs: Needs = NEEDS, available: int = PLENTY
) -> tuple[int, MemoryPlan]:
    return plan_rows(rows, CHUNKS, needs, parse_budget(budget), ctx=0, available_bytes=available)


def resident(budget: str, needs: Needs = NEEDS, available: int = PLENTY) -> tuple[int, MemoryPlan]:
    return plan_chunks(CHUNKS, needs, parse_budget(budget), ctx=0, available_bytes=available)


def sized(nbytes: int) -> str:
    return f"{nbytes // KIB}KiB"


@pytest.mark.parametrize("budget", ["100%", "auto", sized(WHOLE), sized(2 * WHOLE)])
def test_it_is_in_memory_where_all_experts_are(budget: str) -> None:
    (chunk, plan), (same_chunk, same) = choose(budget), resident(budget)
    assert not plan.rows_on_disk and plan.is_whole
    assert (chunk, plan.budget_bytes, plan.total_pages) == (same_chunk, same.budget_bytes, same.total_pages)
    assert plan.static_bytes == NEEDS.static_bytes and plan.transient_bytes == same.transient_bytes


@pytest.mark.parametrize("size", [WHOLE - 64 * KIB, 200 * MIB, 120 * MIB])
def test_where_they_are_not_its_bytes_hold_experts(size: int) -> None:
    (chunk, plan), (same_chunk, same) = choose(sized(size)), resident(sized(size))
    assert plan.rows_on_disk and plan.budget_bytes == size
    assert (plan.static_bytes, plan.expert_pages) == (20 * MIB, same.expert_pages)
    longer = plan.transient_bytes - same.transient_bytes - ROWS.scratch_bytes
    assert longer == (0 if chunk == same_chunk else CHUNKS[1][1] - CHUNKS[0][1])
    assert plan.total_pages == same.total_pages + (FREED - longer) // NEEDS.page_bytes
    used = plan.static_bytes + plan.transient_bytes + plan.total_pages * plan.page_bytes
    assert used <= size < used + NEEDS.page_bytes


def test_so_little_may_be_missing_that_no_expert_is_paged() -> None:
    _, plan = choose(sized(WHOLE - FREED))
    assert plan.rows_on_disk and plan.is_whole
    _, plan = choose(sized(WHOLE - FREED - 64 * KIB))
    assert plan.rows_on_disk and not plan.is_whole


def test_percent_are_of_the_experts_beside_what_is_in_memory() -> None:
    for percent in (0, 25, 99):
        (_, plan), (_, same) = choose(f"{percent}%"), resident(f"{percent}%")
        assert plan.rows_on_disk and plan.budget_bytes == same.budget_bytes - FREED


def test_what_is_said_of_budgets_is_the_same_with_each() -> None:
    plans = [choose(budget)[1] for budget in ("25%", "100%", "auto", "150MiB")]
    least = plans[0].smallest_budget_bytes
    assert least == resident("25%")[1].smallest_budget_bytes - FREED
    for plan in plans:
        assert (plan.smallest_budget_bytes, plan.ample_bytes) == (least, FREED)
        assert plan.base_bytes + plan.expert_bytes + plan.ample_bytes == WHOLE
    assert choose(sized(least))[1].rows_on_disk
    with pytest.raises(FitError):
        choose(sized(least - 64 * KIB))


def test_what_is_free_decides_an_automatic_budget() -> None:
    assert not choose("auto", available=WHOLE)[1].rows_on_disk
    _, plan = choose("auto", available=WHOLE - 1)
    assert plan.rows_on_disk and plan.budget_bytes <= WHOLE - 1


@pytest.mark.parametrize("budget", ["100%", "300MiB", "auto"])
def test_a_model_without_experts_or_with_one_matrix_for_both_ends_is_planned_as_ever(budget: str) -> None:
    dense = replace(NEEDS, expert_pages=(), experts=0)
    assert choose(budget, needs=dense) == resident(budget, dense)
    assert choose(budget, rows=None) == resident(budget)
