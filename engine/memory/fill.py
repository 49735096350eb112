"""One transaction of the pager: experts of a layer on their way from the slow tier into pages."""

from collections.abc import Sequence

from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.arena import I32, Arena, PageState, Tenant, join_pages
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.portions import Portion
from ebbtide.engine.memory.reads import BlockRead
from ebbtide.engine.memory.slow import KINDS
from ebbtide.engine.memory.tables import WeightPageTable


class Fill:
    """Starts reading `experts` (not resident) at once, as many planes of each as the table wants of it now;
    `finish` publishes all of them or none.

    Raises OutOfPagesError, before anything is read, when the arena lacks the pages.
    """

    def __init__(
        self, arena: Arena, table: WeightPageTable, mover: Moves, layer: int, experts: Sequence[int]
    ) -> None:
        self._arena, self._table = arena, table
        self.layer, self.experts = layer, tuple(experts)
        self._portions = [table.portions(layer, expert) for expert in self.experts]
        sizes = [first.pages + second.pages for first, second in self._portions]
        pages = arena.allocate(sum(sizes), Tenant.EXPERTS)
        self._pages: list[I32] = []
        reads: list[BlockRead] = []
        start = 0
        for expert, portions, size in zip(self.experts, self._portions, sizes, strict=True):
            self._pages.append(pages[start : start + size])
            reads.extend(self._reads_of(expert, portions, self._pages[-1]))
            start += size
        try:
            self._flight = mover.start(reads)
        except BaseException:
            arena.release(pages, Tenant.EXPERTS)
            raise
        self._open = True

    def _reads_of(self, expert: int, portions: tuple[Portion, Portion], pages: I32) -> list[BlockRead]:
        targets = [(address, self._arena.page_bytes) for address in self._arena.addresses(pages)]
        split = portions[0].pages
        return [
            BlockRead(self.layer, expert, kind, portion.last_extent, own)
            for kind, portion, own in zip(KINDS, portions, (targets[:split], targets[split:]), strict=True)
        ]

    def finish(self) -> int:
        """Wait, then publish; bytes read. On a failed read every page of this fill is released and it raises.

        A second call does nothing.
        """
        if not self._open:
            return 0
        self._open = False
        pages = join_pages(self._pages)
        try:
            read = self._flight.wait()
        except BaseException:
            self._flight.settle()  # an interrupted wait leaves readers that still write into these pages
            self._arena.release(pages, Tenant.EXPERTS)
            raise
        self._arena.set_state(pages, PageState.READY)
        for expert, own, portions in zip(self.experts, self._pages, self._portions, strict=True):
            self._table.attach(self.layer, expert, own, portions)
        self._arena.set_state(pages, PageState.LIVE)
        return read

    def abandon(self) -> int:
        """End it when nobody waits for it any more: published if it read well, else silently released."""
        try:
            return self.finish()
        except EbbtideError:
            return 0

    def drop(self) -> None:
        """End it when its experts are not wanted: what is not begun is not read, and nothing is published."""
        if self._open:
            self._open = False
            self._flight.settle()
            self._arena.release(join_pages(self._pages), Tenant.EXPERTS)
