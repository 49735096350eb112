"""The widths of a loaded model: which change is under way, and whether another one may begin."""

from collections.abc import Callable

import numpy as np

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.change import U8, Change, Parts
from ebbtide.engine.sizes import format_bytes


class Elastic:
    """The changes of one pager, of which at most one is open. Used by the step thread, at safe points."""

    def __init__(self, parts: Parts, settle: Callable[[], None]) -> None:
        self._parts, self._settle = parts, settle
        self._change: Change | None = None
        parts.residents.leaving = self._leaving

    @property
    def open(self) -> Change | None:
        """The change under way."""
        change = self._change
        return change if change is not None and change.is_open else None

    def _leaving(self, layer: int, expert: int) -> None:
        if (change := self.open) is not None:
            change.withdraw(layer, expert)

    def begin(self, widths: U8, *, keep: bool = False) -> Change:
        """See `Pager.begin_widths`."""
        self.check(widths)
        self._settle()
        table, residents = self._parts.table, self._parts.residents
        before = table.available.copy()
        if (last := self.open) is not None:
            before = last.before
            last.supersede()
        change = self._change = Change(self._parts, widths.copy(), before, keep=keep)
        table.wish(widths)
        residents.resize()
        residents.shed_above(before)
        return change

    def set(self, widths: U8, *, keep: bool = False) -> Change:
        """See `Pager.set_widths`."""
        self.check(widths)
        committed = self._parts.table.committed
        lower = np.minimum(widths, committed)
        if not np.array_equal(lower, committed):
            change = self.begin(lower, keep=keep)
            change.step()
        if not np.array_equal(lower, widths) or np.array_equal(lower, committed):
            change = self.begin(widths, keep=keep)
            change.step()
        return change

    def advance(self) -> Change | None:
        """See `Pager.advance`."""
        change = self._change
        if change is None:
            return None
        change.step()
        if change.is_open:
            return None
        self._change = None
        return change

    def cancel(self) -> None:
        """Give up what is under way."""
        if (change := self.open) is not None:
            change.cancel()

    def check(self, widths: U8) -> None:
        """Raise ValueError for widths that cannot be, FitError where experts of such sizes have no room, and
        UsageError where widths cannot change at all.
        """
        arena, table, mover, residents = self._parts
        table.check_widths(widths)
        mover.trickle([])  # refused where pages are on a card
        sizes = table.pages_of(np.maximum(widths, table.committed))
        capacity = residents.capacity_pages
        if (lacking := residents.pages_lacking(sizes, capacity)) > 0:
            needed, there = ((pages * arena.page_bytes) for pages in (capacity + lacking, capacity))
            raise FitError(
                f"One expert of each layer takes {format_bytes(needed)} at these widths, and experts have "
                f"{format_bytes(there)}.",
                hint="Keep lower widths, give a larger --budget, or start a new chat.",
            )
        if not residents.holds_pins(sizes, capacity):
            raise FitError(
                "At these widths there is no room for all pinned experts.", hint="Unpin an expert first."
            )

    def make_way(self, capacity_pages: int) -> None:
        """Experts get so many pages: cancel a change that would not fit, or would cost a pin."""
        if self.open is None:
            return
        table, residents = self._parts.table, self._parts.residents
        sizes = table.pages_of(table.reach)
        if residents.pages_lacking(sizes, capacity_pages) > 0 or not residents.holds_pins(
            sizes, capacity_pages
        ):
            self.cancel()
