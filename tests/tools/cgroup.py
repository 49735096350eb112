"""A memory cgroup of one's own (v1 or v2), for measuring from outside what a process tree really used.
Linux, root.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


class Outcome(NamedTuple):
    """What came of a command: its exit code, output, and the cgroup's own highest charge in bytes."""

    returncode: int
    stdout: str
    peak_bytes: int
    killed: int
    """Processes that the kernel killed for memory."""


def drop_caches() -> None:
    """Clean page cache charged elsewhere would hide reads from the measurement."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


class MemoryCgroup:
    """Created on entry, removed on exit; `limit_bytes` 0 = only measured."""

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._v1 = (V1 / "memory.limit_in_bytes").exists()
        self.path = (V1 if self._v1 else V2) / name
        self._limit_bytes = limit_bytes

    def __enter__(self) -> "MemoryCgroup":
        self.path.mkdir()
        if self._limit_bytes:
            limit = "memory.limit_in_bytes" if self._v1 else "memory.max"
            (self.path / limit).write_text(str(self._limit_bytes))
        return self

    def __exit__(self, *_: object) -> None:
        for pid in (self.path / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        for _attempt in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.05)  # the kernel still accounts for an exiting process

    def peak_bytes(self) -> int:
        file = "memory.max_usage_in_bytes" if self._v1 else "memory.peak"
        return int((self.path / file).read_text())

    def kills(self) -> int:
        file = "memory.oom_control" if self._v1 else "memory.events"
        counts = dict(line.split() for line in (self.path / file).read_text().splitlines())
        return int(counts.get("oom_kill", 0))

    def run(self, command: Sequence[str]) -> Outcome:
        """Run `command` inside, its stderr shown as usual."""

        def enter() -> None:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        return Outcome(done.returncode, done.stdout, self.peak_bytes(), self.kills())
