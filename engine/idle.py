"""What the engine does when nobody asks: fill free expert quotas, a small read at a time."""

import time
from collections.abc import Callable
from typing import NamedTuple

from ebbtide.engine import decisions
from ebbtide.engine.device.faults import card_fault
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.messages import Decision
from ebbtide.engine.runtime import Runtime


class Interrupted(Exception):
    """Raised by `look` to return to the loop."""


class Filled(NamedTuple):
    """What memory was like when nothing more could be read into it."""

    epoch: int
    """Of the widths, which say how large experts are."""
    free_pages: int

    @classmethod
    def of(cls, runtime: Runtime) -> "Filled":
        """As it is now, in a model that has experts."""
        table, arena = runtime.fast.table, runtime.fast.arena
        assert table is not None
        return cls(table.epoch, arena.free_pages)

    def may_take_more(self, runtime: Runtime) -> bool:
        """Whether widths were committed since, or pages came free."""
        now = Filled.of(runtime)
        return now.epoch != self.epoch or now.free_pages > self.free_pages


class Warming:
    """Reads experts ahead until every quota is full; may be interrupted and taken up again."""

    def __init__(self, runtime: Runtime, emit: Callable[[Decision], None]) -> None:
        self._runtime, self._emit = runtime, emit
        self._seconds, self._bytes = 0.0, 0
        self.over = runtime.pager is None

    def work(self, look: Callable[[], None]) -> None:
        """Go on; `look` is called after each read, at a safe point, and may raise Interrupted."""
        assert self._runtime.pager is not None
        began, before = time.perf_counter(), self._expert_bytes
        try:
            self._runtime.pager.warm(lambda done, total: look())
            self.over = True
        except Interrupted:
            pass
        except Exception as error:
            # The same read will be tried, and its failure reported, when a request needs it.
            self.over = True
            if not isinstance(error, EbbtideError) and card_fault(error) != "full":
                raise
        self._seconds += time.perf_counter() - began
        self._bytes += max(self._expert_bytes - before, 0)
        if self.over and self._bytes:
            self._tell()

    @property
    def _expert_bytes(self) -> int:
        arena = self._runtime.fast.arena
        return arena.owned_pages(Tenant.EXPERTS) * arena.page_bytes

    def _tell(self) -> None:
        pager, spec = self._runtime.pager, self._runtime.spec
        assert pager is not None
        resident, experts = pager.resident_count, spec.layers * spec.experts
        self._emit(decisions.warmed(self._bytes, self._seconds, resident, experts))
