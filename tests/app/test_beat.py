"""A beat is quick after a wake, and rests when nothing wakes it any more."""

import asyncio
from collections.abc import Callable

from textual.app import App

from ebbtide.app.beat import Beat
from tests.helpers.running_timers import quick_timers
from tests.helpers.waiting import PATIENCE_S

LONG_S = 600.0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_it_rests_until_it_is_woken() -> None:
    times: list[int] = []
    async with App[None]().run_test() as pilot:
        beat = Beat(lambda: times.append(1), 0.01, awake_s=0.05, rest_s=LONG_S)
        assert beat.rests
        beat.start(pilot.app)
        for _ in range(3):  # what wakes it may come in the moment after its last time, or long after
            assert not beat.rests
            await until(lambda: beat.rests)
            assert times and not quick_timers(pilot.app)
            times.clear()
            beat.wake()
        await until(lambda: beat.rests)
        times.clear()
        await asyncio.sleep(0.05)
        assert not times
        beat.wake()
        await until(lambda: len(times) > 1)


async def test_at_rest_it_comes_rarely_and_after_the_end_never() -> None:
    times: list[int] = []

    async def deed() -> None:
        times.append(1)

    async with App[None]().run_test() as pilot:
        beat = Beat(deed, 0.01, awake_s=0.0, rest_s=0.01)
        beat.start(pilot.app)
        await until(lambda: beat.rests)
        times.clear()
        await until(lambda: len(times) > 1)
        beat.stop()
        beat.wake()
        times.clear()
        await asyncio.sleep(0.05)
        assert not times and beat.rests


async def test_each_wake_keeps_it_quick() -> None:
    times: list[int] = []
    async with App[None]().run_test() as pilot:
        beat = Beat(lambda: times.append(1), 0.01, awake_s=LONG_S, rest_s=LONG_S)
        beat.start(pilot.app)
        await until(lambda: len(times) > 5)
        assert not beat.rests and quick_timers(pilot.app)
