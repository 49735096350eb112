from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.policy import POLICIES, Lfru, Lfu, Lru, Policy, make_policy

EVENTS = st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=4), max_size=30)


@given(EVENTS)
def test_lru_by_event(events: list[set[int]]) -> None:
    """The victim is in the oldest event; the order inside an event has no say."""
    forward, backward = Lru(8), Lru(8)
    last: OrderedDict[int, int] = OrderedDict((expert, 0) for expert in range(8))
    for time, event in enumerate(events, 1):
        forward.touch(sorted(event))
        backward.touch(sorted(event, reverse=True))
        last.update(dict.fromkeys(event, time))
    expected = min(range(8), key=lambda expert: (last[expert], expert))
    assert forward.victim(range(8)) == backward.victim(range(8)) == expected


def test_lru_only_looks_at_candidates() -> None:
    policy = Lru(4)
    policy.touch([0])
    policy.touch([1, 2])
    assert policy.victim([2, 1]) == 2
    assert policy.victim([3, 1]) == 3


def test_lfu_prefers_the_frequent() -> None:
    policy = Lfu(3)
    for event in ([0], [0], [1], [2], [2], [2]):
        policy.touch(event)
    assert policy.victim(range(3)) == 1


def test_lfu_forgets() -> None:
    policy = Lfu(2, half_life=4)
    for _ in range(10):
        policy.touch([0])
    for _ in range(8):
        policy.touch([1])
    assert policy.victim(range(2)) == 0


def test_lfu_survives_millions_of_events() -> None:
    """Weights grow by 2 per event here, far past what a float holds, and are scaled down on the way."""
    policy = Lfu(3, half_life=1)
    for _ in range(3000):
        policy.touch([0])
    policy.touch([1])
    assert policy.victim(range(3)) == 2
    policy.touch([0])
    assert policy.victim([0, 1]) == 1


def test_lfru_weighs_frequency_against_age() -> None:
    policy = Lfru(4)
    for event in ([0], [0], [0], [1], [2]):
        policy.touch(event)
    # Of experts used once the older one goes; three uses outweigh a somewhat greater age.
    assert policy.victim([0, 1, 2]) == 1
    assert policy.victim([0, 2]) == 2
    for _ in range(100):
        policy.touch([3])
    # All are old now, so that age tells nothing any more.
    assert policy.victim([0, 1, 2]) == 1
    assert policy.victim([0, 3]) == 0


def test_lfru_reads_less_than_recency_and_frequency_alone() -> None:
    """A stream as routers make it: favourites, and half of the last token's choice once more."""
    rng = np.random.default_rng(7)
    weights = np.arange(1, 33) ** -0.8
    events, event = [], list(range(4))
    for time in range(1500):
        if time % 100 == 0:
            favourites = rng.permutation(weights) / weights.sum()  # another subject
        fresh = rng.choice(32, 8, replace=False, p=favourites)
        event = [*event[:2], *(expert for expert in fresh if expert not in event[:2])][:4]
        rng.shuffle(event)
        events.append([int(expert) for expert in event])
    misses = {name: _misses(make_policy(name, 32), events, slots=10) for name in POLICIES}
    assert misses["lfru"] < min(misses["lru"], misses["lfu"]), misses


def _misses(policy: Policy, events: list[list[int]], slots: int) -> int:
    resident: set[int] = set()
    misses = 0
    for event in events:
        policy.touch(event)
        misses += len(set(event) - resident)
        resident |= set(event)
        while len(resident) > slots:
            resident.remove(policy.victim(sorted(resident - set(event))))
    return misses


def test_unknown_policy() -> None:
    with pytest.raises(UsageError) as error:
        make_policy("belady", 4)
    assert "lru" in error.value.hint
