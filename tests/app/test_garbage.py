"""Full collections are rare while an answer streams, and garbage still goes."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from ebbtide.app.garbage import RARELY, collect_now, collect_rarely


class Ring:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_ring_that_was_made_later_is_collected() -> None:
    collect_rarely()
    assert gc.get_threshold()[:2] == RARELY[:2]
    ring = weakref.ref(Ring())
    collect_now()
    assert ring() is None
