"""How long the chunks of a prefill are: a long one is faster, and takes memory that experts could have."""

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import Budget
from ebbtide.engine.memory.plan import MemoryPlan, Needs, make_plan

ARENA_SHARE = 16
"""A longer chunk may cost one part in so many of what experts and KV share."""


def plan_chunks(
    chunks: Sequence[tuple[int, int]],
    needs: Needs,
    budget: Budget,
    *,
    ctx: int,
    available_bytes: int,
    whole_bytes: int = 0,
    free_bytes: int | None = None,
) -> tuple[int, MemoryPlan]:
    """The chunk to take, and its plan; arguments and errors as of `make_plan`.

    chunks: (tokens, transient bytes), the least first; `needs` has the least one's. What a budget comes to,
    and which is the smallest, is that chunk's affair. A longer one is left where it would make experts paged
    that were not, or the context shorter.
    """

    def plan(transient_bytes: int, budget: Budget) -> MemoryPlan:
        return make_plan(
            replace(needs, transient_bytes=transient_bytes),
            budget,
            ctx=ctx,
            available_bytes=available_bytes,
            whole_bytes=whole_bytes,
            free_bytes=free_bytes,
        )

    (tokens, least_bytes), *longer = chunks
    least = plan(least_bytes, budget)
    if budget.kind == "percent":
        budget = Budget("bytes", least.budget_bytes)
    for more_tokens, transient_bytes in reversed(longer):
        try:
            more = plan(transient_bytes, budget)
        except FitError:
            continue
        cost = (transient_bytes - least_bytes) * ARENA_SHARE
        if cost <= least.arena_bytes and more.is_whole >= least.is_whole and more.ctx == least.ctx:
            predicted = least.smallest_budget_bytes, least.base_bytes
            return more_tokens, replace(more, smallest_budget_bytes=predicted[0], base_bytes=predicted[1])
    return tokens, least
