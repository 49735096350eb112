"""Scoring at widths of one's own: they are committed for that long, with every plane in fast memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.runtime import Progress, Runtime
from ebbtide.engine.sizes import budget_words, mib_typed, mib_words

U8 = NDArray[np.uint8]

OTHER_MODEL = "They may be another model's: ask for the widths of this one."


def table_of(runtime: Runtime) -> WeightPageTable:
    """The weight page table. Raises UsageError for a model without experts."""
    if runtime.fast.table is None:
        raise UsageError(
            "This model has no experts, and widths are for experts.",
            hint="Leave --arm and --bits out, or give a model with experts.",
        )
    return runtime.fast.table


def every_plane(table: WeightPageTable) -> U8:
    """u8[layers, 2, experts]: all that each block has."""
    planes = np.array([[layout.planes for layout in pair] for pair in table.layouts], np.uint8)
    return np.repeat(planes[:, :, None], table.experts, axis=2)


def parse_widths(table: WeightPageTable, widths: bytes) -> U8:
    """u8[layers, 2, experts] of a message. Raises UsageError for another number of blocks, and for planes
    that a block has not.
    """
    given = np.frombuffer(widths, np.uint8)
    full = every_plane(table)
    if given.size != full.size:
        raise UsageError(
            f"{given.size} widths were given for {full.size} blocks of experts.", hint=OTHER_MODEL
        )
    given = given.reshape(full.shape)
    wrong = (given < 1) | (given > full)
    if wrong.any():
        width, most = given[wrong][0], full[wrong][0]
        raise UsageError(f"A width of {width} was given to a block of {most} planes.", hint=OTHER_MODEL)
    return given


def hold_all(
    runtime: Runtime,
    tokens: int,
    *,
    sequences: int = 1,
    scratch_bytes: int = 0,
    progress: Progress = lambda stage, done, total: None,
) -> None:
    """Bring every plane of every expert into fast memory, where they stay while so many sequences of `tokens`
    tokens are computed beside `scratch_bytes` of other memory.

    Raises FitError, with the budget that is enough, where they do not all fit; UsageError where the model was
    loaded at a lower width.
    """
    table, plan, pager = table_of(runtime), runtime.plan, runtime.pager
    assert pager is not None
    if runtime.fast.width < runtime.fast.planes:
        raise UsageError(
            f"This model was loaded with {runtime.fast.width} of {runtime.fast.planes} planes.",
            hint="Load it without a width.",
        )
    kv = sequences * runtime.spec.layers * -(-tokens // runtime.kv.tokens)
    needed = plan.expert_pages + kv + -(-scratch_bytes // plan.page_bytes)
    if needed > plan.total_pages:
        least = plan.static_bytes + plan.transient_bytes + needed * plan.page_bytes
        least += plan.ample_bytes if plan.rows_on_disk else 0
        raise FitError(
            f"Arms are compared with every plane in memory: that takes {mib_words(least)}, and the budget is "
            f"{budget_words(plan.budget_bytes)}.",
            hint=f"Let the model have EBBTIDE_BUDGET={mib_typed(least)} or more.",
        )
    runtime.prefixes.drop(plan.total_pages)
    if (table.available == 0).any():
        pager.warm(lambda done, total: progress("Reading experts", done, total))


def use_widths(runtime: Runtime, widths: U8) -> None:
    """Commit widths whose planes `hold_all` has brought, and keep all pages."""
    assert runtime.pager is not None
    runtime.pager.set_widths(widths, keep=True).finish()


@contextmanager
def committed_for_now(runtime: Runtime) -> Iterator[None]:
    """Whatever is committed inside, what was committed before is so again afterwards."""
    table = table_of(runtime)
    before = table.committed.copy()
    try:
        yield
    finally:
        if (table.committed != before).any():
            use_widths(runtime, before)
