"""Runs the parts of the check, each in a process of its own, and gathers their rows.

A part that raises, that dies, or that takes too long is a failed row; the others go on. On Linux only: a part
is a fork, so that torch and Triton are imported once, and nothing here may touch the card before it.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from tests.gpu.ground import failure
from tests.gpu.rows import TIME_TAKEN, Row

Emit = Callable[[Row], None]
Work = Callable[[Emit, float], None]
"""(where rows go, the deadline as of `time.monotonic`)"""


@dataclass(frozen=True)
class Part:
    """With less than `least_s` left it is not begun, after `most_s` it is ended. `alone`: it measures."""

    name: str
    work: Work
    least_s: float
    most_s: float
    alone: bool = False


@dataclass
class _Running:
    part: Part
    process: BaseProcess
    rows: Connection
    deadline: float
    started: float = field(default_factory=time.monotonic)


def run_parts(parts: Sequence[Part], total_s: float, tell: Emit, *, together: int) -> list[Row]:
    """Run all parts in order within `total_s` seconds, up to `together` at once where none measures time.

    `tell` hears every row as it comes. What does not fit into the time is said to be left out, and counts as
    not passed.
    """
    run = _Run(total_s, tell, together)
    try:
        return run.all(parts)
    finally:
        run.stop()


class _Run:
    def __init__(self, total_s: float, tell: Emit, together: int) -> None:
        self._end, self._tell, self._together = time.monotonic() + total_s, tell, together
        self._running: list[_Running] = []
        self._rows: list[Row] = []

    def all(self, parts: Sequence[Part]) -> list[Row]:
        for part in parts:
            self._make_room(part)
            left = self._end - time.monotonic()
            if left < part.least_s:
                note = f"left out: {left:.0f} s are left, it needs {part.least_s:.0f}"
                self._add(Row(part.name, "all", passed=False, note=note))
            else:
                self._running.append(_start(part, min(left, part.most_s)))
        while self._running:
            self._listen()
        return self._rows

    def stop(self) -> None:
        """End what still runs: somebody interrupted."""
        for each in self._running:
            _kill(each.process)

    def _make_room(self, part: Part) -> None:
        """Wait until `part` may run beside what runs."""
        while len(self._running) >= self._together or (
            self._running and (part.alone or any(each.part.alone for each in self._running))
        ):
            self._listen()

    def _listen(self) -> None:
        """Take what comes next: a row, an end, or a deadline."""
        soonest = min(each.deadline for each in self._running)
        ready = wait([each.rows for each in self._running], max(0.0, soonest - time.monotonic()))
        for each in list(self._running):
            if each.rows in ready:
                self._take(each)
            elif time.monotonic() >= each.deadline:
                self._end_it(each)

    def _take(self, running: _Running) -> None:
        try:
            self._add(running.rows.recv())
        except EOFError:
            running.process.join()
            code = running.process.exitcode
            if code:
                note = f"its process ended with code {code}"
                self._add(Row(running.part.name, "all", passed=False, note=note))
            self._ended(running)

    def _end_it(self, running: _Running) -> None:
        taken = time.monotonic() - running.started
        _kill(running.process)
        while running.rows.poll():
            try:
                self._add(running.rows.recv())
            except EOFError:
                break
        note = f"ended after {taken:.0f} s: its time was over"
        self._add(Row(running.part.name, "all", passed=False, note=note))
        self._ended(running)

    def _ended(self, running: _Running) -> None:
        self._running.remove(running)
        running.rows.close()
        seconds = round(time.monotonic() - running.started, 1)
        self._add(Row(running.part.name, TIME_TAKEN, seconds, "s"))

    def _add(self, row: Row) -> None:
        self._rows.append(row)
        self._tell(row)


def _start(part: Part, seconds: float) -> _Running:
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    deadline = time.monotonic() + seconds
    process = context.Process(target=_work, args=(part, there, deadline), daemon=False)
    process.start()
    there.close()
    assert process.pid is not None
    with suppress(PermissionError, ProcessLookupError):  # whoever comes first, this process or the new one
        os.setpgid(process.pid, process.pid)
    return _Running(part, process, here, deadline)


def _work(part: Part, rows: Any, deadline: float) -> None:
    """What the new process does."""
    os.setpgid(0, 0)
    try:
        part.work(rows.send, deadline)
    except Exception as error:
        rows.send(failure(part.name, "all", error))


def _kill(process: BaseProcess) -> None:
    """End a part and, as they are a group, what it has started."""
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
