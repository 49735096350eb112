"""Full collections are rare while an answer streams, and garbage still goes."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ebbtide.app.garbage import DUE, RARELY, collect_if_due, collect_now, collect_rarely


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
