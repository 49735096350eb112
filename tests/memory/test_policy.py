from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.policy import Lfu, Lru, make_policy
from ebbtide.engine.memory.quotas import even_quotas

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


def test_unknown_policy() -> None:
    with pytest.raises(UsageError) as error:
        make_policy("belady", 4)
    assert "lru" in error.value.hint


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 16),
    st.integers(0, 3000),
)
def test_quotas_fit_and_grow_with_capacity(pages: list[int], experts: int, extra: int) -> None:
    capacity = sum(pages) + extra
    quotas = even_quotas(capacity, pages, experts)
    used = sum(quota * size for quota, size in zip(quotas, pages, strict=True))
    assert used <= capacity
    assert all(1 <= quota <= experts for quota in quotas)
    assert max(quotas) - min(quotas) <= 1
    left = [size for quota, size in zip(quotas, pages, strict=True) if quota == min(quotas) < experts]
    assert not left or max(quotas) == min(quotas) + 1 or capacity - used < max(left)


def test_quotas_below_the_floor() -> None:
    with pytest.raises(ValueError, match="fewer"):
        even_quotas(29, [10, 20], 4)
