"""A change of widths while a model is loaded: one vector that is committed whole, or not at all.

    lowering   q first, then the pages that it frees are given back
    raising    pages first, read while computation goes on at the old widths; then q, at a safe point

Who calls what: at a safe point the owner of widths (the planner) calls `Pager.set_widths`; the loop calls
`Pager.advance` at every safe point after that, which publishes what has been read, begins the next reads and
commits when all is there. Between the two experts come and go as ever: an absent one is read at the wider of
its two widths, so that it is not missed by the commit. KV has precedence (`Pager.give_pages`,
`set_capacity`): a change that stands in its way is cancelled.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import EbbtideError, FitError
from ebbtide.engine.memory.arena import Arena, OutOfPagesError
from ebbtide.engine.memory.batch import Batch, Missing
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.residents import Residents
from ebbtide.engine.memory.slow import KINDS
from ebbtide.engine.memory.tables import WeightPageTable

U8 = NDArray[np.uint8]

BATCH_BYTES = 16 << 20
"""Read between two safe points at most: about what a disk gives during a token."""
BATCH_EXPERTS = 64
"""The same, for small experts: so many take about a millisecond to plan."""


class ChangeState(Enum):
    """Where a change stands."""

    OPEN = "open"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Parts(NamedTuple):
    """What a change works on."""

    arena: Arena
    table: WeightPageTable
    mover: Moves
    residents: Residents


class Change:
    """One transaction; made by `Elastic.begin` (elastic.py), used by the step thread at safe points.

    q, its epoch, and the planes of every block stay as they are until all that `widths` ask for is there.
    One that is cancelled, or fails, leaves them so; experts that had to go to make room are absent, as after
    any read.
    """

    def __init__(self, parts: Parts, widths: U8, before: U8, *, keep: bool) -> None:
        self._parts, self.widths, self._keep = parts, widths, keep
        self.before = before
        """Planes that were available when it began: no cancel gives those up."""
        self._batch: Batch | None = None
        self.state = ChangeState.OPEN
        self.error: EbbtideError | None = None
        """Why it failed."""
        self.bytes_read = 0

    # --- what is asked of it ------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.state is ChangeState.OPEN

    @property
    def is_ready(self) -> bool:
        """Whether `step` would get further without waiting."""
        return self._batch is None or self._batch.is_over

    @property
    def pages_to_read(self) -> int:
        """Pages that are still missing, those under way included."""
        return self._parts.table.lacking_pages if self.is_open else 0

    # --- steps --------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Publish what has been read, begin the next reads, or commit. Waits for nothing."""
        if not self.is_open or not self.is_ready:
            return
        try:
            if self._batch is not None:
                batch, self._batch = self._batch, None
                read = batch.publish()
                self.bytes_read += read
                self._parts.residents.bytes_raised += read
            self._begin_batch()
        except EbbtideError as error:
            self._fail(error)
            return
        if self._batch is None:
            self._commit()

    def finish(self) -> None:
        """Wait until it is committed. Raises what made it fail; does nothing once it is over."""
        while self.is_open:
            if self._batch is not None:
                self._batch.wait()
            self.step()
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        """Give it up; waits for one read at most. Does nothing once it is over."""
        if self.is_open:
            self.state = ChangeState.CANCELLED
            self._stop()
            table, residents = self._parts.table, self._parts.residents
            table.wish(table.committed)
            residents.resize()
            residents.shed_above(self.before)

    def supersede(self) -> None:
        """Another change goes on from here: what has been published stays for it."""
        self.state = ChangeState.CANCELLED
        self._stop()

    def _stop(self) -> None:
        """End the reads under way."""
        if self._batch is not None:
            self._batch.drop()
            self._batch = None

    def withdraw(self, layer: int, expert: int) -> None:
        """An expert is taken out."""
        if self._batch is not None:
            self._batch.withdraw(layer, expert)

    def _fail(self, error: EbbtideError) -> None:
        self.cancel()
        self.state, self.error = ChangeState.FAILED, error

    def _commit(self) -> None:
        self._parts.table.commit(self.widths)
        self.state = ChangeState.COMMITTED
        self._parts.residents.resize()
        if not self._keep:
            self._parts.residents.shed()

    # --- what to read next --------------------------------------------------------------------------------

    def _lacking(self) -> list[list[int]]:
        """[layer, expert] of residents with fewer planes than are wished for, as many as a batch takes."""
        lacking = np.argwhere(self._parts.table.is_lacking.any(axis=1))
        found: list[list[int]] = lacking[:BATCH_EXPERTS].tolist()
        return found

    def _blocks(self, layer: int, expert: int) -> list[Missing]:
        """What is missing of an expert."""
        parts = [(kind, self._parts.table.missing(layer, kind, expert)) for kind in range(len(KINDS))]
        return [Missing(layer, kind, expert, *part) for kind, part in parts if part is not None]

    def _begin_batch(self) -> None:
        """Begin to read for as many as a batch takes."""
        arena, table, mover, residents = self._parts
        blocks = self._choose()
        if not blocks:
            return
        residents.make_free(sum(block.pages for block in blocks))
        try:
            self._batch = Batch(arena, table, mover, residents.layers, blocks)
        except OutOfPagesError as error:
            raise FitError(
                f"No memory is free for wider weights: {error}.", hint="Keep the widths that they have."
            ) from error

    def _choose(self) -> list[Missing]:
        """What to read next. Of a layer where not all have room at the wider widths, some go first; the
        others' layer is not above its quota then, so they stay while room is made elsewhere.
        """
        residents = self._parts.residents
        chosen: list[Missing] = []
        pages = 0
        while not chosen and (lacking := self._lacking()):
            for layer, expert in lacking:
                state = residents.layers[layer]
                residents.narrow(state)
                if state.resident[expert]:
                    blocks = self._blocks(layer, expert)
                    chosen += blocks
                    pages += sum(block.pages for block in blocks)
                if pages * self._parts.arena.page_bytes >= BATCH_BYTES:
                    break
        return chosen
