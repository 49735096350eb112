"""Which of some thread counts computes best here: a bounded race on made-up tokens and prompts."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.memory.observed import observe
from ebbtide.engine.processors import Processors
from ebbtide.kernels.cpu.trial import Speed, Trial

LIMIT_S = 0.3
"""Of the whole measurement, its preparation too."""
WEIGHT_BYTES = 128 << 20
"""More than the last-level cache of most machines, and less than all but toy models take, so that the most
memory the process ever has stays the model's. Where the cache is larger, the memory's rate is not seen."""
ROOM_SHARE = 0.25
"""Of the free memory: where the weights would be more, nothing is measured."""
BUSY_SHARE = 0.25
"""Of all processors: with more work than this at hand, a count that suits an idle machine would look slow."""
ROUNDS, LEAST_ROUNDS = 8, 2
"""One round alone may be spoiled by whatever else runs."""
CLOSE = 1.05
"""Times within this factor are alike."""
MANY_CORES = 16


def candidates(here: Processors) -> tuple[int, ...]:
    """Counts worth trying, the least first: half of the cores (of many, a quarter too), the performance
    cores, all cores, all hardware threads. None is above what may run at the same time.
    """
    cores = min(here.cores, here.usable)
    quarter = cores // 4 if cores >= MANY_CORES else 0
    counts = {quarter, cores // 2, min(here.fast_cores, here.usable), cores, here.usable}
    return tuple(sorted(counts - {0}))


def measure_threads(isa: str, here: Processors) -> int | None:
    """The best count on `isa`. None where it cannot be told: too little memory, time or threads, or a machine
    that is busy with something else.

    Takes `WEIGHT_BYTES` for at most about `LIMIT_S` (a try that has begun is ended), and gives all back.
    """
    end = time.perf_counter() + LIMIT_S
    room = observe().budget_room_bytes
    if is_busy() or (room is not None and ROOM_SHARE * room < WEIGHT_BYTES):
        return None
    counts = candidates(here)
    if not can_start(sum(counts)):
        return None
    try:
        weights = anonymous(WEIGHT_BYTES, huge_pages=True)
    except OSError:
        return None
    with closing(Trial(isa, weights, min(here.cores, here.usable))) as trial:
        return choose(best_times(counts, trial.time, end))


def is_busy() -> bool:
    """Whether the machine had much to do in the last minute; False where it does not say."""
    if not hasattr(os, "getloadavg"):
        return False
    return os.getloadavg()[0] > BUSY_SHARE * (os.cpu_count() or 1)


def can_start(count: int) -> bool:
    """Whether `count` more threads may be started. Where a container allows few processes, the library does
    with fewer, and the times of a count would be those of another.
    """
    done, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(count):
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        done.set()
        for thread in started:
            thread.join()
    return True


def best_times(
    counts: Sequence[int],
    measure: Callable[[int], Speed],
    end: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, Speed]:
    """The best times of each count in interleaved rounds; empty where fewer than `LEAST_ROUNDS` are done by
    `end`. No try begins that the longest so far would not let end by then.
    """
    best: dict[int, Speed] = {}
    longest_s = 0.0
    for done in range(ROUNDS):
        found: dict[int, Speed] = {}
        for count in counts:
            began = clock()
            if began + longest_s > end:
                return best if done >= LEAST_ROUNDS else {}
            found[count] = measure(count)
            longest_s = max(longest_s, clock() - began)
        best = {count: _best(found[count], best.get(count)) for count in counts}
    return best


def choose(times: Mapping[int, Speed]) -> int | None:
    """The least count among those whose tokens are about as fast as the fastest, and whose prompts are about
    as fast as those of any other of these. None of none.

    Tokens come first: they are what is waited for. Where memory limits them, more threads still help prompts.
    """
    if not times:
        return None
    token_s = min(speed.token_s for speed in times.values())
    close = {count: speed.prompt_s for count, speed in times.items() if speed.token_s <= CLOSE * token_s}
    prompt_s = min(close.values())
    return min(count for count, seconds in close.items() if seconds <= CLOSE * prompt_s)


def _best(speed: Speed, other: Speed | None) -> Speed:
    if other is None:
        return speed
    return Speed(min(speed.token_s, other.token_s), min(speed.prompt_s, other.prompt_s))
