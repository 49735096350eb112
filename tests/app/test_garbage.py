"""Full collections are rare while an answer streams, and garbage still goes."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ebbtide.app.garbage import DUE, RARELY, collect_if_due, collect_now, collect_rarely
from ebbtide.app.widgets.turns import UserTurn
from tests.helpers.chat_host import settled
from tests.helpers.transcript_host import Host


class Ring:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_ring_that_was_made_later_is_collected() -> None:
    collect_rarely()
    assert gc.get_threshold()[:2] == RARELY[:2]
    ring = weakref.ref(Ring())
    collect_now()
    assert ring() is None


def grown_old() -> weakref.ref[Ring]:
    """A ring that only a full collection frees."""
    ring = Ring()
    gc.collect(1)
    return weakref.ref(ring)


def test_between_answers_a_full_collection_is_made_when_it_is_due() -> None:
    collect_rarely()
    gc.disable()  # nothing else may collect it
    ring = grown_old()
    collect_if_due()
    assert ring() is not None
    for _ in range(DUE):
        gc.collect(1)
    assert ring() is not None
    collect_if_due()
    assert ring() is None


def test_without_an_end_of_an_answer_a_full_collection_comes_by_itself() -> None:
    collect_rarely()
    ring = grown_old()
    kept: list[object] = []
    while ring() is not None and len(kept) < 100 * RARELY[0] * RARELY[1]:
        kept.append([kept])
    assert ring() is None


async def test_a_turn_that_was_drawn_and_let_go_is_freed_with_its_lines() -> None:
    host = Host()
    async with host.run_test() as pilot:
        await host.transcript.add(UserTurn("a question"))
        await settled(pilot)
        turn = host.transcript.turns[0]
        lines = weakref.ref(turn._styles_cache)
        assert lines()._cache  # type: ignore[union-attr]
        del turn
        await host.transcript.clear()
        await settled(pilot)
        collect_now()
        assert lines() is None
