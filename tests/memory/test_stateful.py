"""Random work on a small memory system against a shadow of what every sequence and expert must contain."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from ebbtide.engine.errors import ContextError, ModelError, UsageError
from ebbtide.engine.memory.arena import OutOfPagesError, Tenant
from ebbtide.engine.memory.kv import KvSequence
from ebbtide.engine.memory.policy import POLICIES
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.memory_fakes import (
    EXPERTS,
    FLOOR_PAGES,
    KV,
    LAYERS,
    System,
    is_intact,
    make_system,
    page_view,
)

T = KV.tokens
MAX_TOKENS = 96
PROVENANCES = (
    Provenance(Lane.PREFILL),
    Provenance(Lane.DECODE),
    Provenance(Lane.DECODE, width_epoch=1, exact=False),
)
LAYER = st.integers(0, LAYERS - 1)
ROUTED = st.sets(st.integers(0, EXPERTS - 1), min_size=1)
GUESSED = st.lists(st.integers(0, EXPERTS - 1), min_size=1, max_size=3, unique=True)
COUNT = st.integers(0, 2 * T + 3)


class MemoryMachine(RuleBasedStateMachine):
    """`tokens[sequence]` = the ids a sequence was computed from; each position's byte is its id."""

    sequences: Bundle[KvSequence] = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[KvSequence, list[int]] = {}

    def build(self, pages: int, **options: Any) -> System:
        return make_system(pages, **options)

    @initialize(
        extra=st.integers(0, FLOOR_PAGES * 3),
        retain=st.booleans(),
        policy=st.sampled_from(sorted(POLICIES)),
        reserve=st.integers(0, 3),
        width=st.sampled_from([0, 1, 3]),
    )
    def start(self, extra: int, retain: bool, policy: str, reserve: int, width: int) -> None:
        pages = FLOOR_PAGES + (reserve + 3) * LAYERS + extra
        self.system = self.build(
            pages,
            policy=policy,
            reserve=reserve * LAYERS,
            max_tokens=MAX_TOKENS,
            retain_prefixes=retain,
            width=width,
        )

    def teardown(self) -> None:
        if hasattr(self, "system"):
            self.system.close()

    # --- KV ---

    @rule(target=sequences)
    def new(self) -> KvSequence:
        sequence = self.system.pool.new_sequence()
        self.tokens[sequence] = []
        return sequence

    @rule(sequence=sequences, count=COUNT, flavour=st.sampled_from(PROVENANCES), token=st.integers(0, 2))
    def extend(self, sequence: KvSequence, count: int, flavour: Provenance, token: int) -> None:
        before = (sequence.length, sequence.table.copy(), list(sequence.blocks))
        try:
            self.system.pool.extend(sequence, count, flavour)
        except ContextError:
            assert sequence.length == before[0] and (sequence.table == before[1]).all()
            assert sequence.blocks == before[2]
            return
        new = [token] * count
        for position, value in enumerate(new, len(self.tokens[sequence])):
            for layer in range(LAYERS):
                page = int(sequence.table[layer, position // T])
                page_view(self.system.arena, page)[position % T] = value + layer
        self.tokens[sequence] += new

    @rule(target=sequences, sequence=sequences)
    def fork(self, sequence: KvSequence) -> KvSequence:
        other = self.system.pool.fork(sequence)
        self.tokens[other] = list(self.tokens[sequence])
        return other

    @rule(sequence=sequences, share=st.floats(0, 1))
    def truncate(self, sequence: KvSequence, share: float) -> None:
        length = int(share * sequence.length)
        self.system.pool.truncate(sequence, length)
        del self.tokens[sequence][length:]

    @rule(sequence=consumes(sequences), keep=st.booleans())
    def release(self, sequence: KvSequence, keep: bool) -> None:
        tokens = self.tokens.pop(sequence)
        if keep:
            self.system.prefixes.insert(tokens, sequence)
        self.system.pool.release(sequence)

    @rule(target=sequences, sequence=sequences, cut=st.integers(0, MAX_TOKENS), exact=st.booleans())
    def begin(self, sequence: KvSequence, cut: int, exact: bool) -> KvSequence:
        """A request whose prompt resembles one that was seen."""
        prompt = [*self.tokens[sequence][:cut], 1, 2]
        other = self.system.prefixes.begin(prompt, exact=exact)
        assert other.length < len(prompt)
        assert all(block.provenance.exact for block in other.blocks) or not exact
        self.tokens[other] = prompt[: other.length]
        return other

    @rule(pages=st.integers(1, 30))
    def drop_prefixes(self, pages: int) -> None:
        before = self.system.arena.owned_pages(Tenant.KV)
        freed = self.system.prefixes.drop(pages)
        assert self.system.arena.owned_pages(Tenant.KV) == before - freed

    # --- experts ---

    @rule(layer=LAYER, experts=ROUTED, broken=st.sets(st.integers(0, EXPERTS - 1), max_size=1))
    def event(self, layer: int, experts: set[int], broken: set[int]) -> None:
        self.system.source.broken = {(layer, expert) for expert in broken}
        seen: list[int] = []
        try:
            for mask in self.system.pager.groups(layer, np.array(list(experts))):
                current = [expert for expert in experts if mask[expert]]
                assert all(is_intact(self.system.arena, self.system.pager, layer, e) for e in current)
                seen += current
        except ModelError:
            assert broken & experts
        else:
            assert sorted(seen) == sorted(experts)

    @rule(layer=LAYER, experts=ROUTED)
    def abandoned_event(self, layer: int, experts: set[int]) -> None:
        self.system.source.broken = set()
        groups = self.system.pager.groups(layer, np.array(list(experts)))
        next(groups)
        groups.close()  # type: ignore[attr-defined]

    @rule(
        layer=LAYER, likely=GUESSED, experts=ROUTED, broken=st.sets(st.integers(0, EXPERTS - 1), max_size=1)
    )
    def guessed_event(self, layer: int, likely: list[int], experts: set[int], broken: set[int]) -> None:
        """A guess that may be wrong, may not be readable, may be about another layer, or be left alone."""
        self.system.source.broken = {(layer, expert) for expert in broken}
        pager = self.system.pager
        if pager.may_guess(layer):
            pager.guess(layer, np.array(likely, np.int32))
        self.event((layer + len(broken)) % LAYERS, experts, set())

    @rule(layer=LAYER, likely=GUESSED)
    def guess_left_alone(self, layer: int, likely: list[int]) -> None:
        if self.system.pager.may_guess(layer):
            self.system.pager.guess(layer, np.array(likely, np.int32))
        self.system.pager.settle()

    @rule(pages=st.integers(1, 40))
    def give(self, pages: int) -> None:
        free = self.system.arena.free_pages
        assert self.system.pager.give_pages(pages) == self.system.arena.free_pages - free

    @rule(layer=LAYER, expert=st.integers(0, EXPERTS - 1), on=st.booleans())
    def pin(self, layer: int, expert: int, on: bool) -> None:
        self.system.source.broken = set()
        with suppress(UsageError):
            (self.system.pager.pin if on else self.system.pager.unpin)(layer, expert)

    @rule(layer=LAYER, expert=st.integers(0, EXPERTS - 1))
    def evict(self, layer: int, expert: int) -> None:
        with suppress(UsageError):
            self.system.pager.evict(layer, expert)

    @rule()
    def warm(self) -> None:
        self.system.source.broken = set()
        try:
            self.system.pager.warm()
        except OutOfPagesError:
            pytest.fail("quotas promise more pages than there are")

    @rule()
    def trim(self) -> None:
        self.system.arena.trim()

    # --- what always holds ---

    @invariant()
    def whole(self) -> None:
        if hasattr(self, "system"):
            self.system.check()
            self.check_shares()

    def check_shares(self) -> None:
        arena, pager = self.system.arena, self.system.pager
        kv, limit = arena.owned_pages(Tenant.KV), self.system.tenancy.kv_limit_pages
        assert kv <= limit
        assert pager.floor_pages <= pager.capacity_pages <= arena.total_pages - kv

    @invariant()
    def contents(self) -> None:
        for sequence, tokens in self.tokens.items():
            assert sequence.length == len(tokens)
            for layer in range(LAYERS):
                pages = sequence.table[layer].tolist()
                read = [
                    int(page_view(self.system.arena, pages[p // T])[p % T]) - layer
                    for p in range(len(tokens))
                ]
                assert read == tokens

    @invariant()
    def experts_are_intact(self) -> None:
        if hasattr(self, "system"):
            for layer in range(LAYERS):
                table = self.system.pager.gate_up(layer).page_table
                for expert in np.flatnonzero(table[:, 0] >= 0).tolist():
                    assert is_intact(self.system.arena, self.system.pager, layer, expert)


MemoryMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=20)
TestMemoryMachine = MemoryMachine.TestCase
