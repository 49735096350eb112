import re
from dataclasses import replace

import pytest

from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.budget import Budget, parse_budget
from ebbtide.engine.memory.plan import KV_FLOOR_TOKENS, Needs, full_budget, make_plan, smallest_budget
from ebbtide.engine.sizes import MIB, budget_words, format_bytes

PAGE = 36 << 10
NEEDS = Needs(
    static_bytes=60 * MIB,
    transient_bytes=30 * MIB,
    page_bytes=PAGE,
    layers=30,
    tokens_per_page=48,
    context=8192,
    expert_pages=(76,) * 30,
    experts=8,
)
DENSE = replace(NEEDS, expert_pages=(), experts=0)
PLENTY = 64 << 30


def exactly(nbytes: int) -> Budget:
    return Budget("bytes", nbytes)


def test_all_experts_fit_at_100_percent() -> None:
    plan = make_plan(NEEDS, parse_budget("100%"), ctx=0, available_bytes=PLENTY)
    assert plan.total_pages == plan.kv_floor_pages + plan.expert_pages
    assert plan.kv_floor_pages == 30 * 11  # 512 tokens are 11 pages of 48
    assert plan.budget_bytes == NEEDS.budget_bytes(plan.total_pages)


def test_percent_is_linear_in_the_experts() -> None:
    sizes = [
        make_plan(NEEDS, Budget("percent", p), ctx=0, available_bytes=PLENTY).budget_bytes
        for p in (25, 50, 75)
    ]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] == NEEDS.all_expert_pages // 4 * PAGE


@pytest.mark.parametrize("ctx", [0, 4096])
def test_percent_is_never_below_the_smallest_budget(ctx: int) -> None:
    for text in ("0%", "0.1%", "12%"):
        plan = make_plan(NEEDS, parse_budget(text), ctx=ctx, available_bytes=PLENTY)
        assert plan.budget_bytes == plan.smallest_budget_bytes == smallest_budget(NEEDS, ctx)
        assert plan.ctx >= (ctx or KV_FLOOR_TOKENS)


def test_it_is_told_when_a_context_takes_more_than_the_share() -> None:
    def told(percent: str, ctx: int) -> tuple[str, ...]:
        return make_plan(NEEDS, parse_budget(percent), ctx=ctx, available_bytes=PLENTY).notices

    (notice,) = told("12%", 8192)
    for words in ("8,192 tokens", "12 % would be", budget_words(smallest_budget(NEEDS, 8192))):
        assert words in notice
    assert told("80%", 8192) == told("0%", 8192) == told("12%", 512) == ()


def test_percent_of_a_dense_model_is_its_floor() -> None:
    plans = [
        make_plan(DENSE, parse_budget(text), ctx=0, available_bytes=PLENTY) for text in ("0%", "35%", "100%")
    ]
    assert {plan.budget_bytes for plan in plans} == {smallest_budget(DENSE)}
    assert plans[0].total_pages == plans[0].kv_floor_pages


def test_the_smallest_budget_works_and_one_byte_less_is_refused_with_numbers() -> None:
    smallest = smallest_budget(NEEDS)
    plan = make_plan(NEEDS, exactly(smallest), ctx=0, available_bytes=PLENTY)
    assert plan.total_pages == plan.kv_floor_pages + plan.expert_floor_pages
    assert plan.ctx >= KV_FLOOR_TOKENS
    with pytest.raises(FitError) as error:
        make_plan(NEEDS, exactly(smallest - 1), ctx=0, available_bytes=PLENTY)
    assert error.value.exit_code == 4
    for word in ("dense weights 60 MiB", "workspace 30 MiB", "KV of 512 tokens", "one expert per layer"):
        assert word in str(error.value)
    quoted = error.value.hint.split("--budget ")[1].split()[0]
    assert (
        make_plan(NEEDS, parse_budget(quoted), ctx=0, available_bytes=PLENTY).smallest_budget_bytes
        == smallest
    )


@pytest.mark.parametrize("odd", [0, 1, 300_000, 700_000, (1 << 20) - 1])
def test_the_parts_of_a_refusal_add_up(odd: int) -> None:
    needs = replace(NEEDS, static_bytes=NEEDS.static_bytes + odd, transient_bytes=NEEDS.transient_bytes + odd)
    with pytest.raises(FitError) as error:
        make_plan(needs, exactly(1), ctx=0, available_bytes=PLENTY)
    _, whole, *parts = (int(figure) for figure in re.findall(r"(\d+) MiB", str(error.value)))
    assert sum(parts) == whole and len(parts) == 4


def test_budgets_far_below_zero_room() -> None:
    for size in (1, NEEDS.static_bytes, NEEDS.static_bytes + NEEDS.transient_bytes):
        with pytest.raises(FitError, match="smallest that works"):
            make_plan(NEEDS, exactly(size), ctx=0, available_bytes=PLENTY)


def test_an_asked_context_is_kept_or_refused() -> None:
    tight = smallest_budget(NEEDS, 4096)
    plan = make_plan(NEEDS, exactly(tight), ctx=4096, available_bytes=PLENTY)
    assert plan.ctx == 4096 and not plan.notices
    with pytest.raises(FitError, match="KV of 4,096 tokens") as error:
        make_plan(NEEDS, exactly(tight - PAGE), ctx=4096, available_bytes=PLENTY)
    longest = int(error.value.hint.split("--ctx ")[1].split()[0])
    assert 0 < 4096 - longest <= 48
    assert make_plan(NEEDS, exactly(tight - PAGE), ctx=longest, available_bytes=PLENTY).ctx == longest


def test_an_open_context_is_reduced_with_a_notice() -> None:
    plan = make_plan(NEEDS, exactly(smallest_budget(NEEDS, 4096)), ctx=0, available_bytes=PLENTY)
    assert 4096 <= plan.ctx < 4096 + 48
    wanted = f"Context reduced to {plan.ctx:,} of "
    assert any(wanted in notice for notice in plan.notices)
    served = NEEDS.kv_pages(plan.ctx) + plan.expert_floor_pages
    assert served <= plan.total_pages


def test_sizes_of_one_message_are_of_one_kind() -> None:
    """A budget is told as elsewhere (`bench`: "a budget of 154 MiB"), and never as large as what it lacks."""
    size = smallest_budget(NEEDS, 4096) // MIB * MIB + 300_000
    (notice,) = make_plan(NEEDS, exactly(size), ctx=0, available_bytes=PLENTY).notices
    assert f"tokens: {format_bytes(size)} hold no more" in notice
    with pytest.raises(FitError, match=r"^A budget of 838 GiB is more than .* there, 23\.5 GiB\.$"):
        make_plan(NEEDS, exactly(900 * 10**9), ctx=0, available_bytes=PLENTY, whole_bytes=24064 * MIB)
    needs = replace(NEEDS, static_bytes=NEEDS.static_bytes + 700_000)
    with pytest.raises(FitError) as refused:
        make_plan(needs, exactly(smallest_budget(needs) - 1), ctx=0, available_bytes=PLENTY)
    had, least = (int(figure) for figure in re.findall(r"(\d+) MiB", str(refused.value))[:2])
    assert had < least


def test_a_context_beyond_the_model() -> None:
    with pytest.raises(UsageError, match="8,192"):
        make_plan(NEEDS, Budget("auto"), ctx=8193, available_bytes=PLENTY)


def test_auto_takes_what_never_pages_or_what_is_free() -> None:
    plenty = make_plan(NEEDS, Budget("auto"), ctx=0, available_bytes=PLENTY)
    assert plenty.budget_bytes == full_budget(NEEDS) and plenty.ctx == 8192
    assert plenty.total_pages == plenty.expert_pages + NEEDS.kv_pages(8192)
    some = make_plan(NEEDS, Budget("auto"), ctx=0, available_bytes=400 * MIB)
    assert some.budget_bytes == 400 * MIB
    with pytest.raises(FitError, match="free memory") as error:
        make_plan(NEEDS, Budget("auto"), ctx=0, available_bytes=100 * MIB)
    assert "Close programs" in error.value.hint


def test_more_than_is_free_is_allowed_but_said() -> None:
    plan = make_plan(NEEDS, exactly(900 * MIB), ctx=0, available_bytes=500 * MIB)
    assert any("more than is free" in notice for notice in plan.notices)


def test_what_auto_would_leave_to_others_is_free_too() -> None:
    """As in a memory limit of one's own, of which a budget takes nearly all."""
    plan = make_plan(NEEDS, exactly(900 * MIB), ctx=4096, available_bytes=500 * MIB, free_bytes=900 * MIB)
    assert plan.notices == ()
    plan = make_plan(NEEDS, exactly(900 * MIB), ctx=4096, available_bytes=500 * MIB, free_bytes=899 * MIB)
    assert plan.notices == ("The budget of 900 MiB is more than is free now (899 MiB).",)


def test_a_budget_of_more_memory_than_there_is_is_refused() -> None:
    whole = 2 * PLENTY
    with pytest.raises(FitError, match="more than the memory that is there") as refused:
        make_plan(NEEDS, exactly(whole + 1), ctx=0, available_bytes=PLENTY, whole_bytes=whole)
    advised = parse_budget(refused.value.hint.split()[2])
    make_plan(NEEDS, advised, ctx=0, available_bytes=PLENTY, whole_bytes=whole)
    make_plan(NEEDS, exactly(whole + 1), ctx=0, available_bytes=PLENTY)
