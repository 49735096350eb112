"""Experts that are read before their layer has chosen: what may go wrong, and that nothing comes of it."""

from collections.abc import Iterator

import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.memory.guesses import MEMORY, TRY_EVERY, Trust
from tests.helpers.memory_fakes import FLOOR_PAGES, LAYERS, System, ids, make_system
from tests.helpers.memory_fakes import run_event as event
from tests.helpers.waiting import wait_until

SLOTS = 4


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """Four experts fit in each layer, and two may be guessed."""
    monkeypatch.setattr("ebbtide.engine.memory.streams.MOST_GUESSED", 2)
    system = make_system(FLOOR_PAGES * SLOTS)
    yield system
    system.source.gate.set()
    system.close()


def read(system: System) -> set[tuple[int, int]]:
    return {(layer, expert) for layer, expert, _ in system.source.reads}


def test_a_right_guess_is_read_once_and_computed_before_what_was_not_guessed(system: System) -> None:
    event(system, 1, 0, 1)
    system.pager.guess(1, ids(0, 2))
    assert event(system, 1, 0, 2, 3) == [[0], [2], [3]]
    assert len(system.source.reads) == 2 * 4
    assert (system.pager.trust.made, system.pager.trust.right) == (1, 1)
    assert (system.pager.hits, system.pager.misses) == (1, 4)


def test_of_a_half_wrong_guess_the_right_half_is_used(system: System) -> None:
    system.pager.guess(1, ids(4, 5))
    assert event(system, 1, 0, 4) == [[4], [0]]
    assert system.source.reads.count((1, 4, "down")) == 1
    assert (system.pager.trust.made, system.pager.trust.right) == (2, 1)


def test_likely_experts_are_no_victims(system: System) -> None:
    event(system, 2, 0, 1)
    event(system, 2, 2, 3)
    system.pager.guess(2, ids(0, 4))
    assert event(system, 2, 0, 4) == [[0], [4]]
    assert len(system.source.reads) == 2 * 5


def test_there_is_always_room_for_all_that_is_routed_to(system: System) -> None:
    """Nothing is guessed where a wrong guess could leave too few slots."""
    event(system, 0, 0, 1, 2, 3)
    system.pager.guess(0, ids(0, 1, 4, 5))
    system.check()
    system.pager.guess(0, ids(4, 5))
    assert event(system, 0, 0, 1)
    assert (system.pager.trust.made, system.pager.trust.right) == (2, 0)
    event(system, 0, 2, 3)


def test_a_guess_that_cannot_be_read_is_read_again_when_it_is_needed(system: System) -> None:
    system.source.broken = {(1, 2)}
    system.pager.guess(1, ids(2))
    with pytest.raises(ModelError):
        event(system, 1, 0, 2)
    seen = len(system.source.reads)
    system.pager.guess(1, ids(2))
    wait_until(lambda: len(system.source.reads) == seen + 2, "both reads of the guess")
    system.source.broken = set()
    assert event(system, 1, 2) == [[2]]


def test_a_guess_about_a_layer_that_never_comes_is_given_up(system: System) -> None:
    system.pager.guess(1, ids(2))
    event(system, 0, 1)
    system.pager.guess(1, ids(2))
    system.pager.settle()
    system.check()
    system.pager.guess(2, ids(2))
    assert system.pager.give_pages(1) >= 0
    system.check()


def test_nothing_is_guessed_where_all_is_there_or_nobody_asked_for_it() -> None:
    whole = make_system(FLOOR_PAGES * 6)
    assert whole.pager.may_guess(0)
    whole.pager.warm()
    assert not any(whole.pager.may_guess(layer) for layer in range(LAYERS))
    whole.close()
    plain = make_system(FLOOR_PAGES * 3, prefetch=False)
    assert not plain.pager.may_guess(0)
    plain.close()


def test_guessing_ends_where_it_is_wrong_and_is_tried_again_now_and_then() -> None:
    trust = Trust()
    assert trust.chance()
    for _ in range(MEMORY):
        trust.note(2, 1)
    assert sum(trust.chance() for _ in range(3 * TRY_EVERY)) == 3
    for _ in range(MEMORY):
        trust.note(2, 2)
    assert all(trust.chance() for _ in range(3 * TRY_EVERY))
    assert (trust.made, trust.right) == (4 * MEMORY, 3 * MEMORY)
