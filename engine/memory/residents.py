"""The experts that are in fast memory: how much each layer may keep, and who goes when pages are wanted."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.arena import I32, Arena, PageState, Tenant
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.quotas import even_quotas
from ebbtide.engine.memory.tables import WeightPageTable

I64 = NDArray[np.int64]


def _nobody(layer: int, expert: int) -> None:
    pass


class Residents:
    """Per-layer caches over the arena. `layers` have their quotas from `capacity_pages`, which the owner sets
    (`set_capacity`), and from the sizes that experts have at their widths now (`resize`).
    """

    def __init__(self, arena: Arena, table: WeightPageTable, policy: str) -> None:
        self._arena, self._table = arena, table
        self.layers = [LayerCache(index, table, policy) for index in range(table.layers)]
        self.given = [0] * table.layers
        """Experts of each layer that gave way to KV, ever."""
        self.lost_pins: list[tuple[int, int]] = []
        """(layer, expert) whose pin a smaller quota ended; the reader clears it."""
        self.leaving: Callable[[int, int], None] = _nobody
        """Called with (layer, expert) before that expert is taken out."""
        self.bytes_raised = 0
        """Read for changes of widths."""
        self.capacity_pages = self.floor_pages = 0

    # --- quotas -------------------------------------------------------------------------------------------

    def resize(self) -> None:
        """Widths have changed: set sizes, floor and quotas anew. Evicts nothing by itself."""
        table = self._table
        self.floor_pages = _floor(table.pages_of(table.committed))
        sizes = table.pages_of(table.reach)
        quotas = even_quotas(self.capacity_pages, sizes)
        for state, own, quota in zip(self.layers, sizes.tolist(), quotas, strict=True):
            self.lost_pins += [(state.index, expert) for expert in state.resize(own, quota)]

    def set_capacity(self, pages: int) -> None:
        """Set the pages that experts may own, and the quotas with it. Raises ValueError below the floor."""
        self.capacity_pages = pages
        self.resize()

    def pages_lacking(self, sizes: I64, capacity_pages: int) -> int:
        """Pages by which one expert of each layer is more than `capacity_pages`, with experts of `sizes`
        i64[layers, experts]; 0 or less where they fit.
        """
        return _floor(sizes) - capacity_pages

    def holds_pins(self, sizes: I64, capacity_pages: int) -> bool:
        """Whether with such sizes and capacity every pin could stay."""
        quotas = even_quotas(capacity_pages, sizes)
        return all(
            int(own[state.pinned].sum()) + int(own.max()) <= quota.pages
            for state, own, quota in zip(self.layers, sizes, quotas, strict=True)
            if state.pinned
        )

    # --- who goes -----------------------------------------------------------------------------------------

    def evict_one(self, state: LayerCache) -> bool:
        """Take out the layer's least valuable expert; False when all have to stay."""
        candidates = state.evictable()
        if not candidates:
            return False
        self.detach(state.index, state.policy.victim(candidates))
        return True

    def detach(self, layer: int, expert: int) -> None:
        """Take an expert out and free its pages, those too that further planes are being read into."""
        self.leaving(layer, expert)
        self._release(self._table.detach(layer, expert))

    def shed(self) -> bool:
        """Free the planes that no width asks for any more; whether there were any."""
        if not self._table.has_surplus:
            return False
        pages = self._table.shed()
        self._release(pages)
        return len(pages) > 0

    def shed_above(self, least: NDArray[np.uint8]) -> None:
        """The same, of planes above `least` only."""
        self._release(self._table.shed(least))

    def _release(self, pages: I32) -> None:
        # Kernels run on this thread, so no reader is left and the pages are free at once.
        self._arena.set_state(pages, PageState.RETIRING)
        self._arena.release(pages, Tenant.EXPERTS)

    def make_room(self, state: LayerCache, pages: int) -> bool:
        """Evict from a layer until it may have so many pages more; False when it may not."""
        while state.is_over(pages):
            if not self.shed() and not self.evict_one(state):
                return False
        return True

    def narrow(self, state: LayerCache) -> None:
        """Evict from a layer until its experts would not be above its quota at the sizes that they are to
        have.
        """
        while state.reach > state.quota.pages and self.evict_one(state):
            pass
        self.make_room(state, 0)

    def make_free(self, pages: int) -> None:
        """Evict from the layers furthest above their quotas until `pages` are free, or none is above."""
        while self._arena.free_pages < pages:
            if self.shed():
                continue
            over = [state for state in self.layers if state.excess > 0 and state.evictable()]
            if not over:
                return
            self.evict_one(max(over, key=lambda state: state.excess))

    def give(self, pages: int) -> None:
        """Evict until so many pages are free, from layers furthest above their quotas first.

        May fall short: each layer keeps one expert, and what is pinned or needed now stays.
        """
        while self._arena.free_pages < pages:
            if self.shed():
                continue
            able = [state for state in self.layers if state.count > 1 and state.evictable()]
            state = max(able, key=lambda state: state.excess, default=None)
            if state is None or not self.evict_one(state):
                return
            self.given[state.index] += 1

    def check_integrity(self) -> None:
        """Raise AssertionError unless sizes, quotas and pins are sound at the widths as they are."""
        sizes = self._table.pages_of(self._table.reach)
        assert sizes.tolist() == [state.sizes for state in self.layers], "sizes are out of date"
        quotas = sum(state.quota.pages for state in self.layers)
        assert self.floor_pages <= quotas <= self.capacity_pages, "quotas are not the capacity's"
        for state in self.layers:
            state.check_integrity()


def _floor(sizes: I64) -> int:
    """Room for one expert in each layer, whichever."""
    return int(sizes.max(axis=1).sum())
