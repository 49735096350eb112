"""The memory plan of a model: what a budget buys, fixed at load, before anything large is allocated.

budget = static (dense weights) + transient (workspace) + arena
arena  = KV pages + expert pages, of which the floors are never traded away
"""

from dataclasses import dataclass

from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.budget import Budget, parse_bytes, share_bytes
from ebbtide.engine.sizes import (
    MIB,
    adding_up,
    budget_words,
    mib_about,
    mib_there,
    mib_typed,
    mib_words,
    size_typed,
    too_much_words,
    whole_mib,
)

KV_FLOOR_TOKENS = 512
"""KV that every budget has room for without touching an expert: a short question and its answer."""


@dataclass(frozen=True)
class Needs:
    """What a model asks for. `expert_pages`: pages of one whole expert in each layer (empty: dense model)."""

    static_bytes: int
    transient_bytes: int
    page_bytes: int
    layers: int
    tokens_per_page: int
    context: int
    """The longest context the model was made for, in tokens."""
    expert_pages: tuple[int, ...] = ()
    experts: int = 0

    def kv_pages(self, tokens: int) -> int:
        """Pages of a KV cache of `tokens` positions, all layers."""
        return self.layers * -(-tokens // self.tokens_per_page)

    @property
    def floor_pages(self) -> int:
        """Experts' floor: the smallest working group is one expert (gate, up and down) in each layer."""
        return sum(self.expert_pages)

    @property
    def all_expert_pages(self) -> int:
        return self.experts * self.floor_pages

    def budget_bytes(self, pages: int) -> int:
        """The budget that holds an arena of `pages` pages."""
        return self.static_bytes + self.transient_bytes + pages * self.page_bytes


@dataclass(frozen=True)
class MemoryPlan:
    """The outcome. `ctx` is what was asked, or what fits when nothing was; `notices` are for the person."""

    budget_bytes: int
    static_bytes: int
    transient_bytes: int
    page_bytes: int
    total_pages: int
    kv_floor_pages: int
    expert_floor_pages: int
    expert_pages: int
    """Pages of all experts: more than `total_pages` when the model does not fit whole."""
    ctx: int
    smallest_budget_bytes: int
    base_bytes: int
    """All that a budget holds beside experts, with the least KV and workspace."""
    notices: tuple[str, ...] = ()
    rows_on_disk: bool = False
    """The token embedding is no part of the static bytes: its rows are read when they are needed."""
    ample_bytes: int = 0
    """What a budget with room for all experts holds beside them and `base_bytes`: the token embedding, where
    a smaller one leaves it on disk."""

    @property
    def expert_bytes(self) -> int:
        return self.expert_pages * self.page_bytes

    @property
    def arena_bytes(self) -> int:
        return self.total_pages * self.page_bytes

    @property
    def is_whole(self) -> bool:
        """All experts fit beside the least KV: none has to be paged for a short question."""
        return self.expert_pages + self.kv_floor_pages <= self.total_pages


def smallest_budget(needs: Needs, ctx: int = 0) -> int:
    """The least budget that works: floors only, and KV for the whole of `ctx` where one is asked for."""
    tokens = ctx or min(needs.context, KV_FLOOR_TOKENS)
    return needs.budget_bytes(needs.floor_pages + needs.kv_pages(tokens))


def full_budget(needs: Needs, ctx: int = 0) -> int:
    """The budget that never pages: all experts and the KV of a whole context."""
    return needs.budget_bytes(needs.all_expert_pages + needs.kv_pages(ctx or needs.context))


def resolve_budget(needs: Needs, budget: Budget, ctx: int, available_bytes: int) -> int:
    """Bytes of a budget.

    N % = dense + transient + KV floor + N % of the experts, counted in pages, so that 100 % holds them all;
    but never less than the smallest budget that works, so that 0 % asks for just that.
    """
    if budget.kind == "percent":
        return max(_percent_bytes(needs, budget.value, ctx), smallest_budget(needs, ctx))
    if budget.kind == "auto":
        return min(full_budget(needs, ctx), available_bytes)
    return int(budget.value)


def _percent_bytes(needs: Needs, percent: float, ctx: int) -> int:
    base = needs.budget_bytes(needs.kv_pages(min(ctx or needs.context, KV_FLOOR_TOKENS)))
    return base + share_bytes(percent, needs.all_expert_pages * needs.page_bytes, needs.page_bytes)


def make_plan(
    needs: Needs,
    budget: Budget,
    *,
    ctx: int,
    available_bytes: int,
    whole_bytes: int = 0,
    free_bytes: int | None = None,
) -> MemoryPlan:
    """Plan a load. `ctx` 0 = as long as the model and the budget allow. `available_bytes`: what `auto` may
    take of `free_bytes` (None = all of it). `whole_bytes`: the memory that is there, free or not; 0 = not
    known.

    Raises UsageError for a context longer than the model's, FitError (with the smallest budget that works)
    when the floors, or the context that was asked for, do not fit, or the budget is more than all memory.
    """
    if ctx > needs.context:
        raise UsageError(
            f"--ctx {ctx} is longer than this model's context of {needs.context:,} tokens.",
            hint=f"Give --ctx {needs.context} or less.",
        )
    size = resolve_budget(needs, budget, ctx, available_bytes)
    smallest = smallest_budget(needs, ctx)
    if size < smallest:
        raise _too_small(needs, size, ctx, is_auto=budget.kind == "auto")
    if size > whole_bytes > 0:
        raise _too_large(size, whole_bytes, available_bytes, smallest)
    length = ctx or min(needs.context, _longest(needs, size))
    kv_floor_pages = needs.kv_pages(min(length, KV_FLOOR_TOKENS))
    free = available_bytes if free_bytes is None else free_bytes
    notices = [*_notices(needs, size, length, ctx, free), *_raised(needs, budget, size, ctx)]
    return MemoryPlan(
        budget_bytes=size,
        static_bytes=needs.static_bytes,
        transient_bytes=needs.transient_bytes,
        page_bytes=needs.page_bytes,
        total_pages=_arena_pages(needs, size),
        kv_floor_pages=kv_floor_pages,
        expert_floor_pages=needs.floor_pages,
        expert_pages=needs.all_expert_pages,
        ctx=length,
        smallest_budget_bytes=smallest,
        base_bytes=needs.budget_bytes(kv_floor_pages),
        notices=tuple(notices),
    )


def _notices(needs: Needs, size: int, length: int, ctx: int, free_bytes: int) -> list[str]:
    notices = []
    if size > free_bytes:
        wanted, free = too_much_words(size, free_bytes)
        notices.append(f"The budget of {wanted} is more than is free now ({free}).")
    if not ctx and length < needs.context:
        whole = mib_words(smallest_budget(needs, needs.context))
        notices.append(
            f"Context reduced to {length:,} of {needs.context:,} tokens: {mib_about(size)} hold no more "
            f"beside one expert per layer; {whole} hold all."
        )
    return notices


def _raised(needs: Needs, budget: Budget, size: int, ctx: int) -> list[str]:
    """That a context which was asked for takes more than the share that was. 0 % asks for what it takes."""
    if budget.kind != "percent" or not ctx or not budget.value:
        return []
    share = max(_percent_bytes(needs, budget.value, ctx), smallest_budget(needs))
    if share >= size:
        return []
    return [
        f"The budget is {budget_words(size)}, because a context of {ctx:,} tokens takes that much: "
        f"{budget.value:g} % would be {budget_words(share)}."
    ]


def _too_large(size: int, whole_bytes: int, available_bytes: int, smallest: int) -> FitError:
    usable = size_typed(available_bytes)
    if parse_bytes(usable) < smallest:
        usable = mib_typed(smallest)
    wanted, there = too_much_words(size, whole_bytes)
    return FitError(
        f"A budget of {wanted} is more than the memory that is there, {there}.",
        hint=f"Give --budget {usable} or less, or auto, which takes what is free.",
    )


def _too_small(needs: Needs, size: int, ctx: int, *, is_auto: bool) -> FitError:
    least_bytes = smallest_budget(needs, ctx)
    least = mib_words(least_bytes)
    tokens = ctx or min(needs.context, KV_FLOOR_TOKENS)
    parts = {
        "dense weights": needs.static_bytes,
        "workspace": needs.transient_bytes,
        f"KV of {tokens:,} tokens": needs.kv_pages(tokens) * needs.page_bytes,
    }
    if needs.floor_pages:
        parts["one expert per layer"] = needs.floor_pages * needs.page_bytes
    figures = adding_up([nbytes / MIB for nbytes in parts.values()], whole_mib(least_bytes))
    split = ", ".join(f"{name} {figure:,} MiB" for name, figure in zip(parts, figures, strict=True))
    what = f"The free memory of {mib_there(size)}" if is_auto else f"A budget of {mib_there(size)}"
    hint = (
        f"Close programs until {least} are free"
        if is_auto
        else f"Give --budget {mib_typed(least_bytes)} or more"
    )
    if ctx and size >= smallest_budget(needs):
        hint += f", or --ctx {_longest(needs, size)} or less"
    return FitError(f"{what} is too small: the smallest that works is {least} ({split}).", hint=f"{hint}.")


def _arena_pages(needs: Needs, size: int) -> int:
    return (size - needs.static_bytes - needs.transient_bytes) // needs.page_bytes


def _longest(needs: Needs, size: int) -> int:
    """Tokens whose KV fits when experts give way down to their floor."""
    return (_arena_pages(needs, size) - needs.floor_pages) // needs.layers * needs.tokens_per_page
