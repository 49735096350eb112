"""Further planes of experts that are here, on their way into pages: one step of a change of widths."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ebbtide.engine.memory.arena import I32, Arena, PageState, Tenant, join_pages
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.portions import Portion
from ebbtide.engine.memory.reads import BlockRead
from ebbtide.engine.memory.slow import KINDS
from ebbtide.engine.memory.tables import WeightPageTable


class Missing(NamedTuple):
    """A block that is here with `has`, of which `wanted` is wished for."""

    layer: int
    kind: int
    expert: int
    has: Portion
    wanted: Portion

    @property
    def pages(self) -> int:
        return self.wanted.pages - self.has.pages


class Batch:
    """Begins to read just the missing extents; computation goes on with what is there. Pages are FILLING, and
    count for their layers (`LayerCache.staged`), until they are published or given back.

    Raises OutOfPagesError or FitError, before anything is read, when the pages cannot be had.
    """

    def __init__(
        self,
        arena: Arena,
        table: WeightPageTable,
        mover: Moves,
        layers: Sequence[LayerCache],
        blocks: Sequence[Missing],
    ) -> None:
        self._arena, self._table, self._layers = arena, table, layers
        pages = arena.allocate(sum(block.pages for block in blocks), Tenant.EXPERTS)
        ends = np.cumsum([block.pages for block in blocks])[:-1]
        self._blocks = list(zip(blocks, np.split(pages, ends), strict=True))
        try:
            self._trickle = mover.trickle([self._read_of(*block) for block in self._blocks])
        except BaseException:
            arena.release(pages, Tenant.EXPERTS)
            raise
        for block in blocks:
            layers[block.layer].staged += block.pages

    def _read_of(self, block: Missing, pages: I32) -> BlockRead:
        targets = [(address, self._arena.page_bytes) for address in self._arena.addresses(pages)]
        first, last = block.has.last_extent + 1, block.wanted.last_extent
        return BlockRead(block.layer, block.expert, KINDS[block.kind], last, targets, first)

    @property
    def is_over(self) -> bool:
        """Whether `publish` would not wait."""
        return self._trickle.is_over

    def wait(self) -> None:
        """Return when it is."""
        self._trickle.wait()

    def withdraw(self, layer: int, expert: int) -> None:
        """An expert is taken out: give back what was for it. Waits for one read at most."""
        own = [part for part in self._blocks if (part[0].layer, part[0].expert) == (layer, expert)]
        if own:
            self._trickle.withdraw(layer, expert)
            self._blocks = [part for part in self._blocks if part not in own]
            self._give_back(own)

    def publish(self) -> int:
        """Wait for the reads, then add the planes to their blocks; bytes read.

        On a failed read all pages are given back, and it raises EbbtideError.
        """
        try:
            read = self._trickle.finish()
        except BaseException:
            self.drop()
            raise
        pages = join_pages([pages for _, pages in self._blocks])
        self._arena.set_state(pages, PageState.READY)
        for block, own in self._blocks:
            self._table.extend(block.layer, block.kind, block.expert, own, block.wanted)
            self._layers[block.layer].staged -= block.pages
        self._arena.set_state(pages, PageState.LIVE)
        self._blocks = []
        return read

    def drop(self) -> None:
        """Give everything back; what is not begun is not read."""
        self._trickle.settle()
        blocks, self._blocks = self._blocks, []
        self._give_back(blocks)

    def _give_back(self, blocks: Sequence[tuple[Missing, I32]]) -> None:
        for block, pages in blocks:
            self._layers[block.layer].staged -= block.pages
            self._arena.release(pages, Tenant.EXPERTS)
