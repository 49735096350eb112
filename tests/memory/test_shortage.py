"""Slabs that cannot be had: what is there has to do, and nothing is lost but room."""

import random

import pytest

from ebbtide.engine.errors import ContextError, FitError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.budget import Budget
from ebbtide.engine.memory.ledger import Ledger
from ebbtide.engine.memory.plan import Needs, make_plan
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.memory.slabs import HostSlabs
from tests.helpers.memory_fakes import (
    EXPERTS,
    FLOOR_PAGES,
    LAYERS,
    PAGE,
    System,
    ids,
    is_intact,
    make_system,
)

BF16 = Provenance(Lane.DECODE, "bf16")
PAGES = 12 * 8


class ScarceSlabs(HostSlabs):
    """Gives so many slabs, then none before one comes back."""

    def __init__(self, slabs: int) -> None:
        super().__init__()
        self.left = slabs

    def allocate(self, nbytes: int) -> int:
        if self.left == 0:
            raise FitError("The card has no 32 KiB left.", hint="Close something.")
        self.left -= 1
        return super().allocate(nbytes)


def use(system: System, layer: int, experts: list[int]) -> None:
    """One event; every expert is whole when its group is computed."""
    seen: list[int] = []
    for mask in system.pager.groups(layer, ids(*experts)):
        here = [expert for expert in experts if mask[expert]]
        assert all(is_intact(system.arena, system.pager, layer, expert) for expert in here)
        seen += here
    assert sorted(seen) == sorted(experts)


@pytest.mark.parametrize("slabs", range(4, 13))
def test_experts_and_conversation_go_on_with_what_there_is(slabs: int) -> None:
    assert slabs * 8 >= FLOOR_PAGES
    system, chooser = make_system(PAGES, memory=ScarceSlabs(slabs)), random.Random(slabs)
    sequence = system.pool.new_sequence()
    for _ in range(60):
        use(system, chooser.randrange(LAYERS), chooser.sample(range(EXPERTS), 3))
        try:
            system.pool.extend(sequence, chooser.randrange(9), BF16)
        except ContextError:
            system.pool.truncate(sequence, 0)
        system.check()
    arena = system.arena
    assert arena.lost_pages == PAGES - 8 * slabs and arena.usable_pages == 8 * slabs
    assert arena.mapped_bytes == 8 * slabs * PAGE
    assert sum(arena.owned_pages(tenant) for tenant in (Tenant.KV, Tenant.EXPERTS)) <= arena.usable_pages
    system.pool.release(sequence)
    system.check()
    system.close()


def test_what_is_lost_is_neither_used_nor_free() -> None:
    system = make_system(PAGES, memory=ScarceSlabs(4))
    needs = Needs(0, 0, PAGE, LAYERS, 16, 320, (FLOOR_PAGES // LAYERS,) * LAYERS, EXPERTS)
    plan = make_plan(needs, Budget("bytes", PAGES * PAGE), ctx=0, available_bytes=PAGES * PAGE)
    ledger = Ledger(plan, system.arena, system.pager)
    for layer in range(LAYERS):
        use(system, layer, list(range(EXPERTS)))
    assert system.arena.lost_pages == PAGES - 32
    ledger.check()
    assert ledger.peak_bytes <= 32 * PAGE
    assert ledger.memory(None).free_bytes == plan.budget_bytes - ledger.used_bytes - (PAGES - 32) * PAGE
    system.close()


@pytest.mark.parametrize("slabs", [0, 1, 3])
def test_less_than_the_floor_is_an_error_that_changes_nothing(slabs: int) -> None:
    assert slabs * 8 < FLOOR_PAGES
    system = make_system(PAGES, memory=ScarceSlabs(slabs))
    with pytest.raises(FitError, match="no 32 KiB left"):
        for layer in range(LAYERS):
            use(system, layer, [0, 1])
    assert system.arena.lost_pages == 0
    system.check()
    system.close()


def test_reading_ahead_ends_and_requests_go_on() -> None:
    system = make_system(PAGES, memory=ScarceSlabs(4))
    with pytest.raises(FitError):
        system.pager.warm()
    system.check()
    for layer in range(LAYERS):
        use(system, layer, [1, 3, 5])
    system.check()
    system.close()
