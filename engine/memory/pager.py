"""The pager: sees to it that every expert a layer routes to is in fast memory when it is computed."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.arena import Arena, PageState, Tenant
from ebbtide.engine.memory.fill import Fill
from ebbtide.engine.memory.guesses import MOST_GUESSED, Trust
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.quotas import even_quotas
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.memory.warm import Progress, warm
from ebbtide.kernels.ops import BlockTable

U8 = NDArray[np.uint8]


def _distinct(experts: NDArray[np.integer]) -> list[int]:
    """Sorted, without repeats. Sets win for a token's few experts, counting for a chunk's thousands."""
    if experts.size <= 64:
        return sorted(set(experts.ravel().tolist()))
    found: list[int] = np.flatnonzero(np.bincount(experts.ravel())).tolist()
    return found


def _raise(error: FitError) -> None:
    raise error


class Pager:
    """Per-layer caches of whole experts over the arena; used by the step thread alone.

    An expert's two blocks come and go together. A layer keeps at most its quota; quotas follow from
    `capacity_pages`, which the owner changes at safe points (`set_capacity`) as the other tenant grows and
    shrinks.
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
        self._arena, self._table, self._mover = arena, table, mover
        self._layers = [LayerCache(index, table, policy) for index in range(table.layers)]
        self._fill: Fill | None = None
        self._guess: Fill | None = None
        self.trust = Trust()
        self.prefetch = prefetch
        """Whether guesses are welcome, see `guess`."""
        self.hits = self.misses = self.bytes_paged_in = 0
        self.given = [0] * table.layers
        """Experts of each layer that gave way to KV, ever."""
        self.lost_pins: list[tuple[int, int]] = []
        """(layer, expert) whose pin a smaller quota ended; the reader clears it."""
        self.on_shortage: Callable[[FitError], None] = _raise
        """See `tenancy.Experts`."""
        self.capacity_pages = 0
        self.set_capacity(capacity_pages)

    # --- what kernels need --------------------------------------------------------------------------------

    def gate_up(self, layer: int) -> BlockTable:
        return self._table.blocks[layer][0]

    def down(self, layer: int) -> BlockTable:
        return self._table.blocks[layer][1]

    def groups(self, layer: int, experts: NDArray[np.integer]) -> Iterator[U8]:
        """Make all of `experts` (of one event; any shape, repeats allowed) resident, group by group.

        Yields masks u8[E]; until the next one is asked for, every routed expert with mask 1 is resident and
        stays. Each routed expert has mask 1 in exactly one group. A mask may be the live table of residents
        (then it covers more than was asked for): do not keep or change it. While a group is computed the next
        one is read. Raises EbbtideError when a read fails: experts of that read are absent, all others as
        before.
        """
        if self._fill is not None or (self._guess is not None and self._guess.layer != layer):
            self.settle()
        state = self._layers[layer]
        wanted = _distinct(experts)
        state.touch(wanted)
        resident = state.resident
        missing = [expert for expert in wanted if not resident[expert]]
        self.hits += len(wanted) - len(missing)
        if self._guess is not None:
            self._judge(self._guess, missing)
        if missing:
            self.misses += len(missing)
            yield from self._stream(state, [expert for expert in wanted if resident[expert]], missing)
            return
        state.needed = wanted
        try:
            yield state.mask
        finally:
            state.release(wanted)

    def _stream(self, state: LayerCache, hits: Sequence[int], missing: Sequence[int]) -> Iterator[U8]:
        """Hits first while misses are read, those guessed right in front; then each group while the next
        one is read.
        """
        group = needed = hits
        coming: deque[Fill] = deque()
        guessed: list[int] = []
        if self._guess is not None:
            coming.append(self._guess)
            guessed = [expert for expert in missing if expert in self._guess.experts]
            missing = [expert for expert in missing if expert not in guessed]
        try:
            while group or coming or missing:
                state.needed = needed = group
                if missing and self._fill is None:
                    fill = self._begin(state, missing)
                    if fill is not None:
                        coming.append(fill)
                        missing = missing[len(fill.experts) :]
                    elif not group and not coming:
                        raise FitError(
                            f"No page is free for an expert of layer {state.index}.",
                            hint="This is a fault of ebbtide's accounting: please report it.",
                        )
                if group:
                    yield self._mask(group)
                group = ()
                if coming and coming[0] is self._guess:
                    coming.popleft()
                    self._end_guess(keep=True)
                    # A guess that could not be read is nobody's failure: read again, it may be somebody's.
                    group = [expert for expert in guessed if state.resident[expert]]
                    missing = [*(expert for expert in guessed if not state.resident[expert]), *missing]
                elif coming:
                    group = self._finish(coming.popleft())
        finally:
            state.release(needed)
            if any(fill is self._fill or fill is self._guess for fill in coming):
                self.settle()

    def _mask(self, experts: Sequence[int]) -> U8:
        mask = np.zeros(self._table.experts, np.uint8)
        mask[list(experts)] = 1
        return mask

    # --- guessing -----------------------------------------------------------------------------------------

    def may_guess(self, layer: int) -> bool:
        """Whether a `guess` about this layer is welcome now."""
        if not self.prefetch or self._guess is not None:
            return False
        state = self._layers[layer]
        return state.count < self._table.experts and self.trust.chance()

    def guess(self, layer: int, experts: NDArray[np.integer]) -> None:
        """Begin to read those of `experts`, likely to be routed to next, that are absent: behind all reads
        under way, and in this order. What `groups` gives does not depend on it.

        It has to be followed by `groups` of this layer, or by `settle`.
        """
        state = self._layers[layer]
        likely: list[int] = experts.ravel().tolist()
        # Beside wrong guesses there has to be room for all that will be routed to.
        most = min(MOST_GUESSED, max(state.slots - len(likely), 0))
        absent = [expert for expert in likely if not state.resident[expert]][:most]
        state.needed = needed = [expert for expert in likely if state.resident[expert]]
        try:
            count = self._make_room(state, len(absent)) if absent else 0
            if count > 0:
                self._guess = Fill(self._arena, self._table, self._mover, layer, absent[:count])
                state.coming = count
        except FitError:
            pass  # memory that cannot be had now is not worth a guess
        finally:
            state.release(needed)

    def _judge(self, guess: Fill, missing: Sequence[int]) -> None:
        """A guess of which nothing is missing is given up."""
        right = sum(expert in missing for expert in guess.experts)
        self.trust.note(len(guess.experts), right)
        if not right:
            self._end_guess(keep=False)

    def _end_guess(self, *, keep: bool) -> None:
        guess, self._guess = self._guess, None
        assert guess is not None
        self._layers[guess.layer].coming = 0
        if keep:
            self.bytes_paged_in += guess.abandon()
        else:
            guess.drop()

    # --- reading ------------------------------------------------------------------------------------------

    def _begin(self, state: LayerCache, missing: Sequence[int]) -> Fill | None:
        """Start reading as many of `missing` as fit beside those that stay; None when that is none."""
        while (count := self._make_room(state, len(missing))) > 0:
            try:
                self._fill = Fill(self._arena, self._table, self._mover, state.index, missing[:count])
            except FitError as error:
                self.on_shortage(error)
            else:
                return self._fill
        return None

    def _make_room(self, state: LayerCache, wanted: int) -> int:
        """Evict for up to `wanted` more experts of a layer; for how many there is room now."""
        room = state.room
        # Where not all fit, half a quota at a time lets the next half be read during the computation.
        count = wanted if wanted <= room else min(room, max(1, state.slots // 2))
        if count <= 0:
            return 0
        while state.count + state.coming + count > state.slots and self._evict_one(state):
            pass
        self._make_free(count * state.pages_per_expert)
        return min(count, self._arena.free_pages // state.pages_per_expert)

    def _finish(self, fill: Fill) -> Sequence[int]:
        """Publish a fill; its experts."""
        if fill is self._fill:
            self._fill = None
        self.bytes_paged_in += fill.finish()
        return fill.experts

    def settle(self) -> None:
        """End reads that an abandoned `groups` or `guess` left open; their failures are nobody's any more."""
        if self._guess is not None:
            self._end_guess(keep=False)
        if self._fill is not None:
            self.bytes_paged_in += self._fill.abandon()
            self._fill = None

    def warm(self, progress: Progress = lambda done, total: None) -> int:
        """Fill every layer up to its quota with its first experts; bytes read, not counted as paged in.

        Raises what the source or `progress` raises; what was read by then stays.
        """
        self.settle()
        return warm(self._arena, self._table, self._mover, self.quotas, self._make_free, progress)

    # --- giving and taking pages --------------------------------------------------------------------------

    def _evict_one(self, state: LayerCache) -> bool:
        candidates = state.evictable()
        if not candidates:
            return False
        self._detach(state.index, state.policy.victim(candidates))
        return True

    def _detach(self, layer: int, expert: int) -> None:
        pages = self._table.detach(layer, expert)
        # Kernels run on this thread, so no reader is left and the pages are free at once.
        self._arena.set_state(pages, PageState.RETIRING)
        self._arena.release(pages, Tenant.EXPERTS)

    def _make_free(self, pages: int) -> None:
        """Evict from the layers furthest above their quotas until `pages` are free, or none is above."""
        while self._arena.free_pages < pages:
            over = [state for state in self._layers if state.excess > 0 and state.evictable()]
            if not over:
                return
            self._evict_one(max(over, key=lambda state: state.excess))

    @property
    def floor_pages(self) -> int:
        """Capacity below which it cannot go: one expert in each layer."""
        return sum(state.pages_per_expert for state in self._layers)

    @property
    def quotas(self) -> list[int]:
        """Experts that each layer may keep."""
        return [state.slots for state in self._layers]

    def set_capacity(self, pages: int) -> None:
        """Set the pages that experts may own, and the quotas with it. Evicts nothing by itself.

        Raises ValueError below `floor_pages`.
        """
        slots = even_quotas(pages, [state.pages_per_expert for state in self._layers], self._table.experts)
        self.capacity_pages = pages
        for state, quota in zip(self._layers, slots, strict=True):
            state.slots = quota
            # Pins give way before anything else does: they may cost speed, never a conversation's memory.
            while len(state.pinned) > state.most_pins:
                self.lost_pins.append((state.index, state.pinned.pop()))

    def give_pages(self, count: int) -> int:
        """Free `count` pages by evicting, from layers furthest above their quotas first; pages freed.

        May fall short: each layer keeps one expert, and what is pinned or needed now stays.
        """
        self.settle()
        before = self._arena.free_pages
        while self._arena.free_pages < before + count:
            able = [state for state in self._layers if state.count > 1 and state.evictable()]
            state = max(able, key=lambda state: state.excess, default=None)
            if state is None or not self._evict_one(state):
                break
            self.given[state.index] += 1
        return self._arena.free_pages - before

    # --- by hand ------------------------------------------------------------------------------------------

    def pin(self, layer: int, expert: int) -> None:
        """Make an expert resident and never a victim. Between steps only.

        Raises UsageError when the layer would have no slot left for others, and what a failed read raises.
        """
        self.settle()
        state = self._state(layer, expert)
        if expert in state.pinned:
            return
        state.check_pin()
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
        self._detach(layer, expert)

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
    def hit_rate(self) -> float:
        """Share of routed (layer, expert) pairs found resident; 1.0 before the first."""
        events = self.hits + self.misses
        return self.hits / events if events else 1.0

    def reset_counters(self) -> None:
        """Forget what was counted, also the uses of each expert; who goes first is as before."""
        self.hits = self.misses = self.bytes_paged_in = 0
        self.trust.reset()
        for state in self._layers:
            state.uses = [0] * self._table.experts

    def width_histogram(self) -> dict[str, int]:
        return self._table.width_histogram()

    def close(self) -> None:
        """End open reads and the reader threads. Expert pages stay owned."""
        self.settle()
        self._mover.close()

    def check_integrity(self) -> None:
        """Raise AssertionError unless table and arena agree, all fills are over and pins are sound."""
        self._table.check_integrity()
        assert self._fill is None and self._guess is None, "a read is open"
        mapped = self._table.mapped_pages()
        assert len(mapped) == self._arena.owned_pages(Tenant.EXPERTS), "expert pages lost or shared"
        assert (self._arena.states(mapped) == PageState.LIVE).all(), "a mapped page is not LIVE"
        for state in self._layers:
            state.check_integrity()
