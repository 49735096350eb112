"""Experts on their way to kernels: what a layer routes to is read group by group, guesses in front."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.memory.fill import Fill
from ebbtide.engine.memory.guesses import MOST_GUESSED, Trust
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.residents import Residents
from ebbtide.engine.memory.tables import WeightPageTable
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


class Streams:
    """What a forward pass needs of the pager: experts that are here when their group is computed."""

    def __init__(
        self, arena: Arena, table: WeightPageTable, mover: Moves, policy: str, *, prefetch: bool
    ) -> None:
        self._arena, self._table, self._mover = arena, table, mover
        self._residents = Residents(arena, table, policy)
        self._layers = self._residents.layers
        self._fill: Fill | None = None
        self._guess: Fill | None = None
        self.trust = Trust()
        self.prefetch = prefetch
        """Whether guesses are welcome, see `guess`."""
        self.hits = self.misses = self.bytes_paged_in = 0
        self.on_shortage: Callable[[FitError], None] = _raise
        """See `tenancy.Experts`."""

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
        most = min(MOST_GUESSED, max(state.quota.slots - len(likely), 0))
        absent = [expert for expert in likely if not state.resident[expert]][:most]
        state.needed = needed = [expert for expert in likely if state.resident[expert]]
        try:
            count = self._make_room(state, absent) if absent else 0
            if count > 0:
                self._guess = Fill(self._arena, self._table, self._mover, layer, absent[:count])
                state.coming = sum(state.sizes[expert] for expert in absent[:count])
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
        while (count := self._make_room(state, missing)) > 0:
            try:
                self._fill = Fill(self._arena, self._table, self._mover, state.index, missing[:count])
            except FitError as error:
                self.on_shortage(error)
            else:
                return self._fill
        return None

    def _make_room(self, state: LayerCache, wanted: Sequence[int]) -> int:
        """Evict for `wanted`, absent experts of a layer; for how many of them there is room now."""
        count, pages = state.fitting(wanted)
        if count == 0:
            return 0
        self._residents.make_room(state, pages)
        self._residents.make_free(pages)
        while pages > self._arena.free_pages:
            count -= 1
            pages -= state.sizes[wanted[count]]
        return count

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
