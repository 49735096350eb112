"""A command inside a memory cgroup of its own: what its process tree really used, seen from outside."""

import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.app.memory_cgroup import MemoryCgroup


class Outcome(NamedTuple):
    """What came of a command: its exit code, output, and the cgroup's own highest charge in bytes."""

    returncode: int
    stdout: str
    peak_bytes: int
    killed: int
    """Processes that the kernel killed for memory."""


def run_inside(group: MemoryCgroup, command: Sequence[str]) -> Outcome:
    """Run `command` inside, its stderr shown as usual."""
    done = subprocess.run(group.wrap(command), stdout=subprocess.PIPE, text=True)
    return Outcome(done.returncode, done.stdout, group.peak_bytes() or 0, group.kills())
