"""Pages on a card whose queues run late and in any order: no page is read, written or reused early."""

import gc
import random
from collections.abc import Hashable
from typing import Protocol

import numpy as np
import pytest

from ebbtide.engine.device.card import CudaCard
from ebbtide.engine.device.driver import CudaDriver, DriverError
from ebbtide.engine.device.lanes import Lanes, Marker
from ebbtide.engine.device.staging import Slot, StagingMemory, StagingRing
from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.memory.arena import Arena, Tenant
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.slabs import SlabMemory
from ebbtide.engine.memory.slow import KINDS
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.memory.upload import UploadMover, slot_bytes_for
from tests.helpers.elastic import even, picture
from tests.helpers.fake_cuda import FakeCuda
from tests.helpers.late_queues import LateQueues
from tests.helpers.memory_fakes import (
    EXPERT_PAGES,
    EXPERTS,
    FLOOR_PAGES,
    LAYERS,
    PAGE,
    FakeSource,
    ids,
    layouts,
    page_view,
    pattern,
)
from tests.helpers.simulated_card import SimulatedCard, scatter_now

SEEDS = range(30)
STREAM = 0x77
LARGEST_BLOCK = max(max(layout.page_count for layout in pair) for pair in layouts())


class Card(Lanes, SlabMemory, StagingMemory, Protocol):
    """A card whose queues a test can see."""

    queues: LateQueues
    compute_queue: Hashable


class DriverCard(CudaCard):
    """The real one, on a driver in Python."""

    compute_queue: Hashable = STREAM

    def __init__(self, seed: int) -> None:
        library = FakeCuda(queues=LateQueues(seed))
        self.library, self.queues = library, library.queues
        driver = CudaDriver(library.opener())
        driver.use(0)

        def scatter(stream: int, staged: int, pages: int, page_bytes: int) -> None:
            self.queues.add(stream, lambda: scatter_now(staged, pages, page_bytes))

        super().__init__(driver, STREAM, scatter)


class CardSystem:
    """A pager over a card. Kernels note what they found in `faults`."""

    def __init__(self, card: Card, *, extra_pages: int = 12, slots: int = 3, width: int = 0) -> None:
        self.card, self.source, self.faults = card, FakeSource(), list[str]()
        self.arena = Arena(PAGE, FLOOR_PAGES + extra_pages, slab_bytes=8 * PAGE, memory=card)
        table = WeightPageTable(layouts(), EXPERTS, self.arena.pages, width)
        largest = max(portion.pages for pair in layouts() for portion in pair.portions(width))
        self.ring = StagingRing(card, slot_bytes_for(largest, PAGE), slots)
        mover = UploadMover(self.source, self.ring, card)
        self.pager = Pager(self.arena, table, mover, capacity_pages=self.arena.total_pages)

    def launch_experts(self, layer: int, experts: list[int]) -> None:
        """A kernel that reads these experts, through the page table as it is now."""
        wanted = [
            (page, pattern(layer, expert, kind, place))
            for expert in experts
            for kind, block in zip(KINDS, (self.pager.gate_up(layer), self.pager.down(layer)), strict=True)
            for place, page in enumerate(block.page_table[expert].tolist())
            if page >= 0
        ]

        def kernel() -> None:
            for page, word in wanted:
                found = set(page_view(self.arena, page).view(np.uint32).tolist())
                if found != {word}:
                    self.faults.append(f"page {page} of layer {layer} has {found}, not {word}")

        self.card.queues.add(self.card.compute_queue, kernel)

    def launch_kv(self, page: int, value: int, expected: int) -> None:
        """A kernel that finds `expected` in a KV page and writes `value`."""

        def kernel() -> None:
            view = page_view(self.arena, page)
            if not (view == expected).all():
                self.faults.append(f"KV page {page} has {view[0]}, not {expected}")
            view[:] = value

        self.card.queues.add(self.card.compute_queue, kernel)


def step(system: CardSystem, chooser: random.Random) -> None:
    """One layer of a token: make experts resident, compute each group; sometimes it is cancelled half-way."""
    layer = chooser.randrange(LAYERS)
    routed = chooser.sample(range(EXPERTS), chooser.randint(1, 4))
    for mask in system.pager.groups(layer, ids(*routed)):
        system.launch_experts(layer, [expert for expert in routed if mask[expert]])
        system.card.queues.work(chooser.randint(0, 6))
        if chooser.random() < 0.1:
            return


def kv_turn(system: CardSystem, held: dict[int, int], chooser: random.Random) -> None:
    """KV takes a page from the experts, writes to one it has, or gives one back."""
    arena, pager = system.arena, system.pager
    deed = chooser.choice(["take", "write", "give"])
    if deed == "take" and len(held) < 10:
        pager.set_capacity(arena.total_pages - len(held) - 1)
        if arena.free_pages or pager.give_pages(1):
            (page,) = arena.allocate(1, Tenant.KV).tolist()
            held[page] = 0
    elif held:
        page = chooser.choice(list(held))
        value = chooser.randint(1, 255)
        system.launch_kv(page, value, held[page])
        held[page] = value
        if deed == "give":
            del held[page]
            arena.release(np.array([page], np.int32), Tenant.KV)
            pager.set_capacity(arena.total_pages - len(held))


def run(card: Card, seed: int, *, slots: int = 3, steps: int = 60, width: int = 0) -> CardSystem:
    chooser, held = random.Random(seed), dict[int, int]()
    system = CardSystem(card, slots=slots, width=width)
    for _ in range(steps):
        step(system, chooser)
        kv_turn(system, held, chooser)
        if chooser.random() < 0.05:
            system.arena.trim()
        card.queues.work(chooser.randint(0, 4))
    system.pager.settle()
    card.queues.drain()
    system.arena.check_integrity()
    system.pager.check_integrity()
    system.pager.close()
    return system


@pytest.mark.parametrize("seed", SEEDS)
def test_delayed_and_reordered_copies_and_kernels_never_meet_in_a_page(seed: int) -> None:
    system = run(SimulatedCard(seed), seed, slots=1 + seed % 4)
    assert system.faults == []
    assert system.pager.misses > 20 and system.pager.hits > 5


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_blocks_of_fewer_planes_take_the_same_way_in_smaller_slots(seed: int) -> None:
    system = run(SimulatedCard(seed), seed, slots=1 + seed % 4, width=2)
    assert system.faults == [] and system.pager.misses > 20
    assert system.pager.bytes_paged_in < system.pager.misses * min(EXPERT_PAGES) * PAGE
    assert system.source.last_extents == {(layer, kind, 0) for layer in range(LAYERS) for kind in KINDS}


def test_no_widths_change_on_a_card() -> None:
    system = CardSystem(SimulatedCard(1), width=3)
    before = picture(system.pager._table)
    for change in (system.pager.set_widths, system.pager.begin_widths):
        for width in (2, 8):
            with pytest.raises(UsageError, match="while a model is on a card"):
                change(even(width))
    assert picture(system.pager._table) == before and system.pager.advance() is None
    system.pager.close()


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_the_drivers_streams_and_events_keep_the_same_order(seed: int) -> None:
    card = DriverCard(seed)
    system = run(card, seed, slots=1 + seed % 4)
    assert system.faults == [] and system.pager.misses > 20
    system.arena.close()
    card.close()
    assert card.library.blocks == {} and card.library.pinned == {}
    del system, card.queues
    gc.collect()
    assert card.library.events == {}, "events are never given back"


class Careless(SimulatedCard):
    """Forgets to let one queue wait for the other."""

    forgets = ""

    def copying_waits(self, marker: Marker) -> None:
        if self.forgets != "copying":
            super().copying_waits(marker)

    def computing_waits(self, marker: Marker) -> None:
        if self.forgets != "computing":
            super().computing_waits(marker)


@pytest.mark.parametrize("forgets", ["copying", "computing"])
def test_the_stress_test_sees_a_queue_that_does_not_wait(forgets: str) -> None:
    def careless(seed: int) -> CardSystem:
        card = Careless(seed)
        card.forgets = forgets
        return run(card, seed)

    assert any(careless(seed).faults for seed in SEEDS)


def test_a_slot_is_not_written_while_its_copy_is_outstanding() -> None:
    class Eager(StagingRing):
        def give(self, slot: Slot, busy: Marker | None = None) -> None:
            super().give(slot)

    def faults(ring: type[StagingRing]) -> list[str]:
        found = []
        for seed in SEEDS:
            card = SimulatedCard(seed)
            system = CardSystem(card, slots=1)
            system.pager.close()
            eager = ring(card, slot_bytes_for(LARGEST_BLOCK, PAGE), 1)
            table = WeightPageTable(layouts(), EXPERTS, system.arena.pages)
            mover = UploadMover(system.source, eager, card)
            system.pager = Pager(system.arena, table, mover, capacity_pages=system.arena.total_pages)
            for mask in system.pager.groups(0, ids(0, 1, 2)):
                system.launch_experts(0, [expert for expert in range(3) if mask[expert]])
            card.queues.drain()
            system.pager.close()
            found += system.faults
        return found

    assert faults(StagingRing) == []
    assert faults(Eager) != []


def test_a_failed_read_publishes_nothing_and_loses_no_page() -> None:
    card = SimulatedCard(1)
    system = CardSystem(card)
    system.source.broken.add((0, 2))
    for _ in range(5):
        with pytest.raises(EbbtideError, match="expert 2 of layer 0"):
            for _mask in system.pager.groups(0, ids(1, 2)):
                pass
    card.queues.drain()
    assert system.arena.owned_pages(Tenant.EXPERTS) == 0
    system.source.broken.clear()
    for mask in system.pager.groups(0, ids(1, 2)):
        system.launch_experts(0, [expert for expert in (1, 2) if mask[expert]])
    card.queues.drain()
    assert system.faults == []
    system.pager.check_integrity()
    system.pager.close()


def test_fewer_slots_where_pinned_memory_is_short() -> None:
    size = slot_bytes_for(LARGEST_BLOCK, PAGE)
    ring = StagingRing(SimulatedCard(1, pinned_quota=2 * size), size, 8)
    assert (ring.slots, ring.is_pinned, ring.device_bytes) == (2, True, 2 * size)
    assert "Only" in ring.notice


def test_without_pinned_memory_one_ordinary_slot_does_the_work() -> None:
    card = SimulatedCard(3, pinned_quota=0)
    system = run(card, 3, slots=4)
    assert (system.ring.slots, system.ring.is_pinned) == (1, False)
    assert "no pinned memory" in system.ring.notice
    assert system.faults == [] and system.pager.misses > 20


@pytest.mark.parametrize("slots", [1, 3])
def test_a_lost_card_ends_the_wait_of_readers_and_of_the_step(slots: int) -> None:
    card = DriverCard(0)
    system = CardSystem(card, slots=slots)
    for mask in system.pager.groups(0, ids(0, 1, 2)):
        assert mask.any()
    card.library.refusals["cuEventSynchronize"] = 700
    with pytest.raises(DriverError, match="cuEventSynchronize"):
        for layer in range(LAYERS):
            for _ in system.pager.groups(layer, ids(3, 4, 5)):
                pass
    system.pager.close()


def test_a_transfer_that_cannot_begin_gives_its_pages_back() -> None:
    card = DriverCard(0)
    system = CardSystem(card)
    card.library.refusals["cuEventCreate"] = 2
    with pytest.raises(DriverError, match="cuEventCreate"):
        list(system.pager.groups(0, ids(0, 1)))
    system.arena.check_integrity()
    assert system.arena.owned_pages(Tenant.EXPERTS) == 0
    card.library.refusals.clear()
    for mask in system.pager.groups(0, ids(0, 1)):
        assert mask[0] and mask[1]
    system.pager.check_integrity()
    system.pager.close()
