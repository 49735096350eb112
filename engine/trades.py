"""Notices what memory did by itself between two safe points, and tells it in few sentences."""

import time
from collections.abc import Callable

from ebbtide.engine import decisions
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.messages import Decision
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.telemetry import Clock, RateLimit

INTERVAL_S = 1.0
"""A growing context takes pages many times a second; what happened in between is told together."""


class Trades:
    """Compares the counters of one runtime's memory with those of the last sentence."""

    def __init__(
        self, runtime: Runtime, emit: Callable[[Decision], None], now: Clock = time.perf_counter
    ) -> None:
        self._runtime, self._emit = runtime, emit
        self._limit = RateLimit(INTERVAL_S, now)
        self.begin(0)

    def begin(self, context: int) -> None:
        """A request begins with `context` tokens: what comes is compared with the present state."""
        fast = self._runtime.fast
        self._context = context
        self._kv_bytes, self._expert_bytes = self._owned()
        self._given = list(fast.pager.given) if fast.pager is not None else []
        self._dropped = fast.prefixes.dropped_tokens
        self._lost = fast.arena.lost_pages

    def _owned(self) -> tuple[int, int]:
        arena = self._runtime.fast.arena
        kv, experts = (arena.owned_pages(tenant) for tenant in (Tenant.KV, Tenant.EXPERTS))
        return kv * arena.page_bytes, experts * arena.page_bytes

    @property
    def _happened(self) -> bool:
        fast, pager = self._runtime.fast, self._runtime.fast.pager
        changed = pager is not None and (bool(pager.lost_pins) or pager.given != self._given)
        changed = changed or fast.arena.lost_pages != self._lost
        return changed or fast.prefixes.dropped_tokens != self._dropped

    def look(self, context: int, *, last: bool = False) -> None:
        """At a safe point, with `context` tokens in use; `last`: tell what there is, now."""
        if self._happened and (self._limit.ready() or last):
            self._tell(context)
            self.begin(context)

    def _tell(self, context: int) -> None:
        pager, (kv_bytes, expert_bytes) = self._runtime.fast.pager, self._owned()
        arena = self._runtime.fast.arena
        if arena.lost_pages > self._lost:
            lost, left = (pages * arena.page_bytes for pages in (arena.lost_pages, arena.usable_pages))
            self._emit(decisions.room_lost(lost, left))
        if pager is not None and pager.given != self._given:
            given = [now - before for now, before in zip(pager.given, self._given, strict=True)]
            grown, experts = max(kv_bytes - self._kv_bytes, 0), (self._expert_bytes, expert_bytes)
            self._emit(decisions.kv_grew((self._context, context), grown, given, experts))
        if (dropped := self._runtime.fast.prefixes.dropped_tokens - self._dropped) > 0:
            self._emit(decisions.prefixes_dropped(dropped))
        if pager is not None and pager.lost_pins:
            self._emit(decisions.pins_lost(pager.lost_pins))
            pager.lost_pins.clear()
