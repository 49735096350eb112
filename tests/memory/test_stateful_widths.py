"""Random work on a small memory system whose widths change, against a shadow of what is committed."""

import random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.change import Change, ChangeState
from tests.helpers.elastic import MOST, U8, HeldMover, even
from tests.helpers.memory_fakes import EXPERTS, LAYERS, FakeSource, System, make_system, run_event
from tests.memory.test_stateful import MemoryMachine


def some_widths(seed: int, least: int, most: int) -> U8:
    """A width for each block, about half of them at one end."""
    chooser = random.Random(seed)
    widths = even(8)
    for at, planes in np.ndenumerate(widths.copy()):
        low, high = min(least, int(planes)), min(most, int(planes))
        widths[at] = chooser.choice([low, high, chooser.randint(low, high)])
    return widths


class WidthMachine(MemoryMachine):
    """`widths` = the vector that has to be in force, `epoch` = how often it changed."""

    def build(self, pages: int, **options: Any) -> System:
        source = FakeSource()
        self.mover = HeldMover(source)
        system = make_system(pages, source=source, mover=self.mover, **options)
        system.pager.warm()
        self.widths, self.epoch = system.pager._table.committed.copy(), 0
        self.changes: list[Change] = []
        return system

    def commit(self, widths: U8) -> None:
        if not np.array_equal(self.widths, widths):
            self.widths, self.epoch = widths.copy(), self.epoch + 1

    @rule(
        seed=st.integers(0, 1 << 20),
        least=st.integers(1, 8),
        span=st.integers(0, 7),
        whole=st.booleans(),
        keep=st.booleans(),
    )
    def change_widths(self, seed: int, least: int, span: int, whole: bool, keep: bool) -> None:
        widths, pager = some_widths(seed, least, min(least + span, 8)), self.system.pager
        begin = pager.begin_widths if whole else pager.set_widths
        last = pager.change
        try:
            change = begin(widths, keep=keep)
        except FitError:
            assert pager.change is last
            return
        if not whole:
            self.commit(np.minimum(widths, self.widths))
        if change.state is ChangeState.COMMITTED:
            self.commit(widths)
        assert last is None or not last.is_open
        self.changes.append(change)

    @rule(blocks=st.integers(0, 40))
    def read(self, blocks: int) -> None:
        """Some of what is missing arrives, or a bad block is met."""
        self.mover.work(blocks)

    @rule()
    def advance(self) -> None:
        before = self.system.pager.change
        over = self.system.pager.advance()
        if over is not None:
            assert over is self.changes[-1] and not over.is_open
            assert (over.error is not None) == (over.state is ChangeState.FAILED)
            if over is before and over.state is ChangeState.COMMITTED:
                self.commit(over.widths)

    @rule(seed=st.integers(0, 1 << 20), least=st.integers(1, 8))
    def tokens_go_on(self, seed: int, least: int) -> None:
        """A change, and what may happen until it is over: reads, tokens that miss, experts that leave."""
        chooser, pager = random.Random(seed), self.system.pager
        self.system.source.broken = set()
        self.change_widths(seed, least, 8 - least, chooser.random() < 0.5, False)
        for _ in range(12):
            layer, expert = chooser.randrange(LAYERS), chooser.randrange(EXPERTS)
            deed = chooser.randrange(4)
            if deed == 0:
                self.mover.work(chooser.randint(1, 20))
            elif deed == 1:
                self.advance()
            elif deed == 2:
                run_event(self.system, layer, expert, (expert + 1) % EXPERTS)
            elif not pager.pins()[layer, expert] and pager.gate_up(layer).page_table[expert, 0] >= 0:
                pager.evict(layer, expert)
            self.system.check()
            self.widths_are_as_committed()
            self.experts_are_intact()

    def run_out(self) -> None:
        for _ in range(40):
            self.mover.work(1000)
            self.advance()
        assert self.system.pager.change is None

    @rule()
    def bring_to_an_end(self) -> None:
        """Nothing that happened before keeps a change from ending, and when no read fails, well."""
        self.system.source.broken = set()
        self.run_out()
        if self.changes and self.changes[-1].state is ChangeState.FAILED:
            try:
                again = self.system.pager.begin_widths(self.changes[-1].widths)
            except FitError:
                return
            self.changes.append(again)
            self.run_out()
            assert again.state is ChangeState.COMMITTED

    @rule()
    def cancel(self) -> None:
        if self.changes:
            self.changes[-1].cancel()

    @invariant()
    def widths_are_as_committed(self) -> None:
        if hasattr(self, "system"):
            table, pager = self.system.pager._table, self.system.pager
            assert (table.committed == self.widths).all() and table.epoch == self.epoch
            assert table.is_exact == (self.widths == MOST).all()
            here = table.available > 0
            assert (table.available >= self.widths)[here].all()
            owned = self.system.arena.owned_pages(Tenant.EXPERTS)
            assert owned + self.system.arena.owned_pages(Tenant.KV) <= self.system.arena.total_pages
            floor = table.pages_of(self.widths).max(axis=1).sum()
            assert pager.floor_pages == floor <= pager.capacity_pages


WidthMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestWidthMachine = WidthMachine.TestCase
