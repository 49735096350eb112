"""The ledger: what ebbtide uses of its budget, by owner, in bytes."""

from ebbtide.engine.memory.arena import Arena, Tenant
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.plan import MemoryPlan
from ebbtide.engine.messages import Memory


class LedgerError(RuntimeError):
    """More is in use than the budget allows: a fault of ebbtide."""


class Ledger:
    """static + pages owned + transient <= budget.

    Pages being read are owned already; the transient counts in full whether it is in use or not. `plan` is
    what the budget buys.
    """

    def __init__(self, plan: MemoryPlan, arena: Arena, pager: Pager | None = None) -> None:
        self.plan, self._arena, self._pager = plan, arena, pager

    @property
    def fixed_bytes(self) -> int:
        return self.plan.static_bytes + self.plan.transient_bytes

    @property
    def used_bytes(self) -> int:
        pages = self._arena.usable_pages - self._arena.free_pages
        return self.fixed_bytes + pages * self._arena.page_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that was in use at any moment, between safe points too."""
        return self.fixed_bytes + self._arena.peak_pages * self._arena.page_bytes

    def check(self) -> None:
        """Raise LedgerError if the budget was ever exceeded. For safe points."""
        if self.peak_bytes > self.plan.budget_bytes:
            raise LedgerError(f"{self.peak_bytes} bytes were in use, the budget is {self.plan.budget_bytes}")

    def memory(self, process_peak_bytes: int | None) -> Memory:
        """The ledger as a message. `process_peak_bytes`: what the system says (0 when it says nothing)."""
        size, pager = self._arena.page_bytes, self._pager
        return Memory(
            budget_bytes=self.plan.budget_bytes,
            peak_bytes=self.peak_bytes,
            process_peak_bytes=process_peak_bytes or 0,
            static_bytes=self.plan.static_bytes,
            expert_bytes=self._arena.owned_pages(Tenant.EXPERTS) * size,
            kv_bytes=self._arena.owned_pages(Tenant.KV) * size,
            transient_bytes=self.plan.transient_bytes,
            free_bytes=self.plan.budget_bytes - self.used_bytes - self._arena.lost_pages * size,
            expert_hit_rate=pager.hit_rate if pager else 1.0,
            bytes_paged_in=pager.bytes_paged_in + pager.bytes_raised if pager else 0,
            width_histogram=pager.width_histogram() if pager else {},
        )
