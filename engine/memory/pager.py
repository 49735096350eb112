"""The pager: sees to it that every expert a layer routes to is in fast memory when it is computed."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.arena import Arena, PageState, Tenant
from ebbtide.engine.memory.change import Change, Parts
from ebbtide.engine.memory.elastic import Elastic
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.streams import U8, Streams
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.memory.warm import Progress, warm


class Pager(Streams):
    """Per-layer caches of whole experts over the arena; used by the step thread alone.

    An expert's two blocks come and go together, each with as many planes as it is computed with. A layer
    keeps at most its quota; quotas follow from the experts' sizes and from `capacity_pages`, which the owner
    changes at safe points (`set_capacity`) as the other tenant grows and shrinks.
    """

    def __init__(
        self,
        arena: Arena,
        table: WeightPageTable,
        mover: Moves,
        *,
        capacity_pages: int,
        policy: str = "lfru",
        prefetch: bool = False,
    ) -> None:
        super().__init__(arena, table, mover, policy, prefetch=prefetch)
        self._elastic = Elastic(Parts(arena, table, mover, self._residents), self.settle)
        self.set_capacity(capacity_pages)

    def warm(self, progress: Progress = lambda done, total: None) -> int:
        """Fill every layer up to its quota with its first experts; bytes read, not counted as paged in.

        Raises what the source or `progress` raises; what was read by then stays.
        """
        self.settle()
        return warm(self._arena, self._table, self._mover, self._residents, progress)

    # --- giving and taking pages --------------------------------------------------------------------------

    @property
    def capacity_pages(self) -> int:
        """Pages that experts may own."""
        return self._residents.capacity_pages

    @property
    def floor_pages(self) -> int:
        """Capacity below which it cannot go: room for one expert in each layer, whichever, at its width."""
        return self._residents.floor_pages

    @property
    def quotas(self) -> list[int]:
        """Experts that each layer may keep, whichever they are; of narrow ones it may keep more."""
        return [state.quota.slots for state in self._layers]

    @property
    def given(self) -> list[int]:
        """Experts of each layer that gave way to KV, ever."""
        return self._residents.given

    @property
    def lost_pins(self) -> list[tuple[int, int]]:
        """(layer, expert) whose pin a smaller quota ended; the reader clears it."""
        return self._residents.lost_pins

    def set_capacity(self, pages: int) -> None:
        """Set the pages that experts may own, and the quotas with it. Evicts nothing by itself; a change of
        widths that would not fit any more is cancelled.

        Raises ValueError below `floor_pages`.
        """
        if pages >= self.floor_pages:
            self._elastic.make_way(pages)
        self._residents.set_capacity(pages)

    def give_pages(self, count: int) -> int:
        """Free `count` pages: those of a change of widths under way, which is cancelled, and planes that no
        width asks for; then by evicting, from layers furthest above their quotas first. Pages freed.

        May fall short: each layer keeps one expert, and what is pinned or needed now stays.
        """
        self.settle()
        before = self._arena.free_pages
        if count > 0:
            self._elastic.cancel()
        self._residents.give(before + count)
        return self._arena.free_pages - before

    # --- widths -------------------------------------------------------------------------------------------

    def set_widths(self, widths: U8, *, keep: bool = False) -> Change:
        """Lower now, raise when it has been read: u8[layers, 2 (gate_up, down), experts], as `Widths`.

        What is lowered is committed before this returns, as a vector of its own, and its pages are free; what
        is raised is a second change, which the returned one stands for: it is over at once where nothing has
        to be read (absent experts need nothing), else `advance` brings it on. It takes the place of a change
        that is open, and uses what is there of it already. `keep`: lowered planes stay until their pages are
        wanted, so that raising them again costs no read. Between steps only.

        Raises, and changes nothing: ValueError for widths that a block cannot have, FitError where one expert
        of each layer (beside those that are pinned) would not fit, UsageError on a card.
        """
        return self._elastic.set(widths, keep=keep)

    def begin_widths(self, widths: U8, *, keep: bool = False) -> Change:
        """The same as one transaction: lowered planes go when those to be raised are there. Reads begin, and
        q changes, with `advance` (or `Change.finish`, which waits).
        """
        return self._elastic.begin(widths, keep=keep)

    def advance(self) -> Change | None:
        """At every safe point: publish planes that have been read, begin to read the next, or commit.

        Waits for nothing. Gives a change that is over since, once: committed, failed (`error`), or cancelled.
        """
        return self._elastic.advance()

    @property
    def change(self) -> Change | None:
        """The change of widths under way."""
        return self._elastic.open

    # --- by hand ------------------------------------------------------------------------------------------

    def pin(self, layer: int, expert: int) -> None:
        """Make an expert resident and never a victim. Between steps only.

        Raises UsageError when the layer would have no slot left for others, and what a failed read raises.
        """
        self.settle()
        state = self._state(layer, expert)
        if expert in state.pinned:
            return
        state.check_pin(expert)
        if not state.resident[expert]:
            fill = self._begin(state, [expert])
            if fill is None:
                raise UsageError("No memory is free for this expert now.", hint="Try again later.")
            self._finish(fill)
        state.pinned.append(expert)

    def unpin(self, layer: int, expert: int) -> None:
        """Let an expert be a victim again."""
        state = self._state(layer, expert)
        if expert in state.pinned:
            state.pinned.remove(expert)

    def evict(self, layer: int, expert: int) -> None:
        """Give up an expert's pages. Between steps only. Raises UsageError if it is pinned or not here."""
        self.settle()
        state = self._state(layer, expert)
        state.check_evict(expert)
        self._residents.detach(layer, expert)

    def _state(self, layer: int, expert: int) -> LayerCache:
        if not (0 <= layer < len(self._layers) and 0 <= expert < self._table.experts):
            raise UsageError(f"There is no expert {expert} in layer {layer}.", hint="Choose another.")
        return self._layers[layer]

    # --- figures and checks -------------------------------------------------------------------------------

    def uses(self) -> NDArray[np.uint32]:
        """Events that routed to each expert, u32[layers, experts]."""
        return np.array([state.uses for state in self._layers], np.uint32)

    def pins(self) -> U8:
        """1 where an expert is pinned, u8[layers, experts]."""
        pins = np.zeros((len(self._layers), self._table.experts), np.uint8)
        for state in self._layers:
            pins[state.index, state.pinned] = 1
        return pins

    @property
    def resident_count(self) -> int:
        """Experts in fast memory."""
        return sum(state.count for state in self._layers)

    @property
    def bytes_raised(self) -> int:
        """Bytes read to raise the widths of experts that were here."""
        return self._residents.bytes_raised

    @property
    def hit_rate(self) -> float:
        """Share of routed (layer, expert) pairs found resident; 1.0 before the first."""
        events = self.hits + self.misses
        return self.hits / events if events else 1.0

    def reset_counters(self) -> None:
        """Forget what was counted, also the uses of each expert; who goes first is as before."""
        self.hits = self.misses = self.bytes_paged_in = self._residents.bytes_raised = 0
        self.trust.reset()
        for state in self._layers:
            state.uses = [0] * self._table.experts

    def width_histogram(self) -> dict[str, int]:
        return self._table.width_histogram()

    def close(self) -> None:
        """End open reads and the reader threads. Expert pages stay owned."""
        self._elastic.cancel()
        self.settle()
        self._mover.close()

    def check_integrity(self) -> None:
        """Raise AssertionError unless table and arena agree, all fills are over and pins are sound."""
        self._table.check_integrity()
        assert self._fill is None and self._guess is None, "a read is open"
        mapped = self._table.mapped_pages()
        staged = sum(state.staged for state in self._layers)
        owned = self._arena.owned_pages(Tenant.EXPERTS)
        assert len(mapped) + staged == owned, "expert pages lost or shared"
        assert staged == self._arena.pages_in_flight, "planes are read into pages that nobody counts"
        assert (self._arena.states(mapped) == PageState.LIVE).all(), "a mapped page is not LIVE"
        is_changing = not np.array_equal(self._table.desired, self._table.committed)
        assert self.change is not None or not (is_changing or staged), "a change is over, but not its reads"
        self._residents.check_integrity()
