"""Keeps the widths of a loaded model where its memory wants them: KV comes first, experts have the rest.

    before each step   what KV takes soon counts as taken; widths that do not fit beside it fall at once
    at rest            after a `Clear`, or what else gave memory back, they rise again, read by read
    now and then       the same pages, spread anew over the experts that are asked for now

Nothing flaps: what falls makes room for more tokens than were missing, and rises only where there is room for
many more. A rise that KV gets in the way of is cancelled by the pager and leaves widths as they are.
"""

import time
from collections.abc import Callable

import numpy as np

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.change import ChangeState
from ebbtide.engine.memory.fast_memory import FastMemory
from ebbtide.engine.messages import Decision
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.hull import U8
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.steward import Steward

NEAR_TOKENS = 16
"""KV that so many tokens will need counts as taken: there is time to lower before it is asked for."""
AHEAD_TOKENS = 64
"""What falls makes room for so many tokens more, so that not every block of KV moves widths."""
TURN_TOKENS = 256
"""Widths rise only where a short turn has room afterwards: else its first tokens would undo it."""
LEAST_RISE = 1 / 64
"""Of all pages of whole experts: a smaller gain is not worth its reads, or a word."""
RECONSIDER_TOKENS = 256
"""How often what was routed to may spread widths anew."""
LEAST_GAIN = 0.05
"""Of the predicted damage: a smaller gain is not worth its reads."""

NAP_S = 0.002
"""What `rest` waits for reads: a command should not wait longer."""


class WidthKeeper:
    """Changes widths of one loaded model at safe points of the step thread, and tells of it.

    `told` is asked whether it is time to tell again (`RateLimit.ready`): what happens in between is one
    sentence. Nothing is raised where widths cannot change: that is told, and the old ones stay.
    """

    def __init__(
        self,
        fast: FastMemory,
        steward: Steward,
        routes: Routes,
        costs: Costs,
        emit: Callable[[Decision], None],
        may_tell: Callable[[], bool],
    ) -> None:
        assert fast.table is not None and fast.pager is not None
        self._fast, self._table, self._pager = fast, fast.table, fast.pager
        self._steward, self._routes, self._costs = steward, routes, costs
        self._emit, self._may_tell = emit, may_tell
        self._is_due = False
        self._target = -1
        """Pages that were planned for last because they had to be."""
        self._seen_tokens = 0
        self._is_first = True
        self._remember()

    # --- safe points --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """After the load, before anything is read: all experts are to fit."""
        self._lower_to(self._fast.tenancy.experts_share(self._kv_pages(0, TURN_TOKENS)))

    def begun(self) -> None:
        """Tell of the first widths; what comes later is the conversation's."""
        self.tell(last=True)
        self._is_first = False

    def look(self, length: int, coming: int) -> None:
        """Before a step that adds `coming` tokens to a sequence of `length`."""
        self._advance()
        share = self._fast.tenancy.experts_share
        near, ahead = coming + NEAR_TOKENS, coming + AHEAD_TOKENS
        if self._pages > share(self._kv_pages(length, near)):
            self._lower_to(share(self._kv_pages(length, ahead)))
        elif self._routes.tokens - self._seen_tokens >= RECONSIDER_TOKENS:
            self._reconsider(share(self._kv_pages(length, ahead + TURN_TOKENS)))
        self.tell()

    def wake(self) -> None:
        """Memory may have been given back: look at it when there is time."""
        self._is_due = True

    @property
    def has_work(self) -> bool:
        """Whether `rest` would do something."""
        return self._is_due or self._pager.change is not None

    def rest(self) -> None:
        """Go on with a rise while nobody asks; waits for reads a moment at most."""
        if (change := self._pager.change) is None:
            self._is_due = False
            self._reconsider(self._fast.tenancy.experts_share(self._kv_pages(0, TURN_TOKENS)))
        elif not change.is_ready:
            time.sleep(NAP_S)
        self._advance()
        self.tell(last=not self.has_work)

    # --- deciding -----------------------------------------------------------------------------------------

    def _kv_pages(self, length: int, tokens: int) -> int:
        """Pages that KV takes for `tokens` more, and for a block that has to be copied first."""
        pool = self._fast.pool
        size = pool.tokens_per_block
        return pool.layers * (-(-(length + tokens) // size) - -(-length // size) + 1)

    def _remember(self) -> None:
        """What is compared with at the next telling."""
        self._before = self._table.committed.copy()
        self._kv_before = self._kv_bytes()
        self._pages = self._steward.pages(self._table.reach)

    def _kv_bytes(self) -> int:
        arena = self._fast.arena
        return arena.owned_pages(Tenant.KV) * arena.page_bytes

    def _lower_to(self, target: int) -> None:
        """Widths for at most so many pages, as far as floors let them fall."""
        if target == self._target:
            return  # at the floors: all that can be had has been had
        self._target = target
        self._look_at_routes()
        if self._steward.pages(self._table.committed) > target:
            self._set(np.minimum(self._steward.plan(target, self._table.committed), self._table.committed))
        elif self._pager.change is not None:
            self._set(self._table.committed.copy())  # a rise that was begun would not fit

    def _reconsider(self, target: int) -> None:
        """Widths that rise into free pages, or are spread anew, where that is worth it."""
        self._look_at_routes()
        if self._pager.change is not None:
            return
        now, pages = self._table.committed, self._pages
        plan = self._steward.plan(max(target, min(pages, target + self._turn_pages)), now)
        added = self._steward.pages(plan) - pages
        gained = self._steward.damage(now) - self._steward.damage(plan)
        is_whole = bool((plan == self._table.most).all())
        rises = added >= LEAST_RISE * self._steward.whole_pages or (is_whole and added > 0)
        if rises or gained > LEAST_GAIN * self._steward.damage(now):
            self._target = -1
            self._set(plan)

    @property
    def _turn_pages(self) -> int:
        return self._kv_pages(0, TURN_TOKENS)

    def _look_at_routes(self) -> None:
        self._steward.look_at_routes()
        self._seen_tokens = self._routes.tokens

    # --- doing --------------------------------------------------------------------------------------------

    def _set(self, widths: U8) -> None:
        try:
            self._pager.set_widths(widths)
        except EbbtideError as error:
            self._emit(decisions.widths_kept(str(error), error.hint))
        self._advance()
        self._pages = self._steward.pages(self._table.reach)

    def _advance(self) -> None:
        """Go on with what is under way; a failure is told, a cancel leaves all as it was."""
        change = self._pager.advance()
        if change is None:
            return
        self._pages = self._steward.pages(self._table.reach)
        if change.state is ChangeState.FAILED and change.error is not None:
            self._emit(decisions.widths_kept(str(change.error), change.error.hint))

    # --- telling ------------------------------------------------------------------------------------------

    def tell(self, *, last: bool = False) -> None:
        """One sentence for all that was committed since the last one, if it is time; `last`: in any case."""
        if np.array_equal(self._before, self._table.committed) or not (self._may_tell() or last):
            return
        now = self._table.committed
        changed = int((now != self._before).any(axis=1).sum())
        lowered = int((now < self._before).any(axis=1).sum())
        bits = self._costs.average_bits(self._before), self._costs.average_bits(now)
        kv = None if self._is_first else self._kv_bytes() - self._kv_before
        self._emit(decisions.widths_changed((changed, lowered), now.shape[0] * now.shape[2], bits, kv))
        self._remember()
