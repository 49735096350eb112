"""Choosing a thread count from times: made-up machines on a clock that is wound by hand, and this one."""

import gc
import os
import threading
import weakref
from collections.abc import Callable

import psutil
import pytest

from ebbtide.engine import thread_choice
from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.memory.observed import Observed
from ebbtide.engine.processors import Processors
from ebbtide.engine.thread_choice import (
    LEAST_ROUNDS,
    ROUNDS,
    best_times,
    can_start,
    candidates,
    choose,
    is_busy,
    measure_threads,
)
from ebbtide.kernels.cpu.library import best_isa
from ebbtide.kernels.cpu.trial import Speed
from ebbtide.kernels.ops import U8
from tests.helpers.attention_kernels import isas

HYBRID = Processors(allowed=24, quota=None, cores=16, fast_cores=8)
"""8 performance cores of two threads, 8 efficiency cores."""
HANG_S = 120


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does meanwhile."""
    monkeypatch.setattr(thread_choice, "is_busy", lambda: False)


class Machine:
    """Times as `seconds` has them, on a clock that moves by them."""

    def __init__(self, seconds: Callable[[int], Speed]) -> None:
        self.now, self.tried = 100.0, list[int]()
        self._seconds = seconds

    def measure(self, count: int) -> Speed:
        self.tried.append(count)
        speed = self._seconds(count)
        self.now += speed.token_s + speed.prompt_s
        return speed

    def times(self, here: Processors, limit_s: float = 10.0) -> dict[int, Speed]:
        return best_times(candidates(here), self.measure, self.now + limit_s, lambda: self.now)


def chosen(here: Processors, seconds: Callable[[int], Speed]) -> int | None:
    return choose(Machine(seconds).times(here))


@pytest.mark.parametrize(
    ("here", "counts"),
    [
        (HYBRID, (4, 8, 16, 24)),
        (Processors(16, None, 8, 8), (4, 8, 16)),
        (Processors(4, None, 4, 4), (2, 4)),
        (Processors(3, None, 1, 1), (1, 3)),
        (Processors(256, None, 128, 128), (32, 64, 128, 256)),
        (Processors(64, 6, 32, 32), (3, 6)),
        (Processors(24, 10, 16, 8), (5, 8, 10)),
    ],
)
def test_candidates(here: Processors, counts: tuple[int, ...]) -> None:
    assert candidates(here) == counts
    assert max(counts) <= here.usable


def test_slow_cores_that_hold_up_every_region_are_left_out() -> None:
    def seconds(count: int) -> Speed:
        pace = count if count <= 8 else 8 * 0.7
        return Speed(0.02 / pace, 0.01 / pace)

    assert chosen(HYBRID, seconds) == 8


def test_slow_cores_that_help_are_taken() -> None:
    def seconds(count: int) -> Speed:
        pace = min(count, 8) + 0.5 * (min(count, 16) - min(count, 8))
        return Speed(0.02 / pace, 0.01 / pace)

    assert chosen(HYBRID, seconds) == 16


def test_more_threads_than_memory_can_feed_are_not_taken() -> None:
    assert chosen(Processors(16, None, 8, 8), lambda count: Speed(max(0.008 / count, 0.0021), 0.003)) == 4


def test_they_are_where_prompts_gain_and_tokens_lose_nothing() -> None:
    limited = Processors(16, None, 8, 8)
    assert chosen(limited, lambda count: Speed(0.002, 0.01 / min(count, 8))) == 8
    assert chosen(limited, lambda count: Speed(0.002 if count < 8 else 0.003, 0.01 / count)) == 4


def test_a_quota_bounds_what_is_tried() -> None:
    machine = Machine(lambda count: Speed(0.01 / count, 0.01 / count))
    assert choose(machine.times(Processors(64, 6, 32, 32))) == 6
    assert set(machine.tried) == {3, 6}


def test_each_count_has_its_best_time() -> None:
    noise = iter([9.0, 1.0, 1.0, 9.0] + [5.0] * 100)
    times = Machine(lambda count: Speed(0.001 * count * next(noise), 0.001)).times(Processors(4, None, 4, 4))
    assert times == {2: Speed(0.002, 0.001), 4: Speed(0.004, 0.001)}


def test_rounds_are_interleaved_and_few() -> None:
    machine = Machine(lambda count: Speed(0.001, 0.001))
    machine.times(Processors(4, None, 4, 4))
    assert machine.tried == [2, 4] * ROUNDS


@pytest.mark.parametrize("try_s", [0.001, 0.01, 0.03, 0.05, 0.2])
def test_no_try_begins_that_would_not_end_in_time(try_s: float) -> None:
    machine = Machine(lambda count: Speed(try_s / 2, try_s / 2))
    times = machine.times(HYBRID, limit_s=0.3)
    assert machine.now <= 100.3 + try_s / 1000
    assert bool(times) == (len(machine.tried) >= 4 * LEAST_ROUNDS)


def test_a_pause_in_the_middle_of_the_first_round_tells_nothing() -> None:
    pauses = iter([0.0, 300.0] + [0.0] * 100)
    machine = Machine(lambda count: Speed(0.001 + next(pauses), 0.001))
    assert machine.times(Processors(4, None, 4, 4)) == {}
    assert machine.tried == [2, 4]
    assert choose({}) is None


def within(call: Callable[[], int | None]) -> int | None:
    """The result of `call`; a hang fails the test."""
    results: list[int | None] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert results, "it did not end"
    return results[0]


@pytest.mark.parametrize("isa", isas())
def test_this_machine_is_measured(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "candidates", lambda here: (1, 2))
    monkeypatch.setattr(thread_choice, "LIMIT_S", HANG_S)
    monkeypatch.setattr(thread_choice, "WEIGHT_BYTES", 16 << 20)
    assert within(lambda: measure_threads(isa, Processors(2, None, 2, 2))) in (1, 2)


def test_this_machine_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "candidates", lambda here: (1, 2))
    assert within(lambda: measure_threads(best_isa(), Processors(2, None, 2, 2))) in (1, 2, None)


def test_no_time_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "LIMIT_S", -1.0)
    monkeypatch.setattr(thread_choice, "WEIGHT_BYTES", 16 << 20)
    assert measure_threads("portable", Processors(2, None, 2, 2)) is None


def test_where_memory_is_short_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("memory was taken")

    monkeypatch.setattr(thread_choice, "anonymous", refuse)
    monkeypatch.setattr(
        thread_choice, "observe", lambda: Observed(available_bytes=600 << 20, total_bytes=1 << 30)
    )
    assert measure_threads("portable", Processors(4, None, 4, 4)) is None


def test_a_busy_machine_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("memory was taken")

    monkeypatch.setattr(thread_choice, "anonymous", refuse)
    monkeypatch.setattr(thread_choice, "is_busy", lambda: True)
    assert measure_threads("portable", Processors(4, None, 4, 4)) is None


def test_busy_is_work_for_more_than_a_few_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    for load, busy in ((4.1, True), (3.9, False)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 9.0), raising=False)
        assert is_busy() is busy
    monkeypatch.delattr(os, "getloadavg")
    assert not is_busy(), "Windows does not say"


def test_memory_that_cannot_be_had_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the commit limit")

    monkeypatch.setattr(thread_choice, "anonymous", refuse)
    assert measure_threads("portable", Processors(4, None, 4, 4)) is None


def test_where_threads_are_short_none_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    left, start = 5, threading.Thread.start

    def start_few(thread: threading.Thread) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    def refuse(*_: object) -> None:
        raise AssertionError("the library was asked for threads")

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", start_few)
    monkeypatch.setattr(thread_choice, "Trial", refuse)
    assert measure_threads("portable", Processors(4, None, 4, 4)) is None
    assert threading.active_count() == before
    left = 6
    assert can_start(6) and not can_start(1)


def test_all_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads end, and its memory goes at once, without waiting for a collection of garbage."""
    taken: list[weakref.ref[U8]] = []
    before = psutil.Process().num_threads()

    def watched(nbytes: int, *, huge_pages: bool) -> U8:
        memory = anonymous(nbytes, huge_pages=huge_pages)
        taken.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(thread_choice, "anonymous", watched)
    monkeypatch.setattr(thread_choice, "WEIGHT_BYTES", 16 << 20)
    gc.disable()
    try:
        measure_threads("portable", Processors(4, None, 4, 4))
        assert [memory() for memory in taken] == [None]
        assert psutil.Process().num_threads() == before
    finally:
        gc.enable()
