"""Whether the token embedding is in memory: a token needs one row of it, and its bytes could hold experts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import Budget
from ebbtide.engine.memory.chunks import plan_chunks
from ebbtide.engine.memory.plan import MemoryPlan, Needs


class RowsOnDisk(NamedTuple):
    """An embedding whose rows can be read from the disk one by one."""

    matrix_bytes: int
    """Of the whole: static, unless it stays on disk."""
    scratch_bytes: int
    """Transient if it does: the rows in use."""


def plan_rows(
    rows: RowsOnDisk | None,
    chunks: Sequence[tuple[int, int]],
    needs: Needs,
    budget: Budget,
    *,
    ctx: int,
    available_bytes: int,
    whole_bytes: int = 0,
    free_bytes: int | None = None,
) -> tuple[int, MemoryPlan]:
    """The chunk to take, and its plan; arguments and errors as of `plan_chunks`. `needs` has the embedding.

    It is in memory where all experts are too. A budget of N % is of what is in memory then; which budget is
    the smallest, and what one holds beside experts, is said of rows on disk.
    """

    def plan(chunks: Sequence[tuple[int, int]], needs: Needs) -> tuple[int, MemoryPlan]:
        return plan_chunks(
            chunks,
            needs,
            budget,
            ctx=ctx,
            available_bytes=available_bytes,
            whole_bytes=whole_bytes,
            free_bytes=free_bytes,
        )

    if rows is None or not needs.experts:
        return plan(chunks, needs)
    tokens, without = plan(
        [(tokens, nbytes + rows.scratch_bytes) for tokens, nbytes in chunks],
        replace(needs, static_bytes=needs.static_bytes - rows.matrix_bytes),
    )
    without = replace(without, rows_on_disk=True, ample_bytes=rows.matrix_bytes - rows.scratch_bytes)
    try:
        whole_tokens, whole = plan(chunks, needs)
    except FitError:
        return tokens, without
    if not whole.is_whole:
        return tokens, without
    return whole_tokens, replace(
        whole,
        smallest_budget_bytes=without.smallest_budget_bytes,
        base_bytes=without.base_bytes,
        ample_bytes=without.ample_bytes,
    )
