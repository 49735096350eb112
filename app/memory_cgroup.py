"""A memory limit for a process of one's own choice: a cgroup (version 1 or 2) made for it. Linux only."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SYSTEM = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
REMOVE_TRIES, REMOVE_PAUSE_S = 100, 0.05
"""The kernel still accounts for an exiting process for a moment."""
_ENTER = 'echo $$ > "$0" && exec "$@"'


class LimitRefused(Exception):
    """No cgroup can be made here; the text says why, in a few words."""


@dataclass(frozen=True)
class Version:
    """What the files of one version of cgroups are called, below `root`."""

    root: Path
    limit: str
    swap_limit: str
    """Where a limit keeps swap out: of memory and swap together (1), or of swap alone (2)."""
    peak: str
    events: str
    own: str
    """A pattern for the own cgroup's line in /proc/self/cgroup."""


def find_version(system: Path | None = None) -> Version:
    """Raises LimitRefused where the system has no memory cgroups."""
    system = system or SYSTEM
    if (system / "memory" / "memory.limit_in_bytes").exists():
        files = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes")
        return Version(system / "memory", *files, "memory.oom_control", r"\d+:(?:.*,)?memory(?:,.*)?:(.*)")
    with contextlib.suppress(OSError):
        if "memory" in (system / "cgroup.controllers").read_text().split():
            names = ("memory.max", "memory.swap.max", "memory.peak", "memory.events")
            return Version(system, *names, r"0::(.*)")
    raise LimitRefused("this system has no memory cgroups")


def places(version: Version, own_cgroup: Path | None = None) -> list[Path]:
    """Folders in which a cgroup may be made, the nearest to this process's own first.

    Version 2 lets only a cgroup without processes hand its controllers down, so that the own one seldom does.
    """
    try:
        text = (own_cgroup or OWN_CGROUP).read_text()
    except OSError:
        text = ""
    found = re.search(f"^{version.own}$", text, re.MULTILINE)
    own = version.root / (found[1].strip("/") if found else "")
    levels = [folder for folder in (own, *own.parents) if folder.is_relative_to(version.root)]
    return [folder for folder in levels if folder.is_dir() and _hands_down(folder, version)]


def _hands_down(folder: Path, version: Version) -> bool:
    if version.limit != "memory.max":
        return True
    try:
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def drop_caches() -> bool:
    """Clean page cache that was charged elsewhere would be free for a contender. Whether it was permitted."""
    os.sync()
    try:
        DROP_CACHES.write_text("3")
    except OSError:
        return False
    return True


class MemoryCgroup:
    """Made on entry, removed on exit with whatever still runs in it; `limit_bytes` 0 = only measured.

    Entry raises LimitRefused where none can be made, or no process be moved into it.
    """

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._name, self._limit_bytes = name, limit_bytes

    def __enter__(self) -> Self:
        self._version = find_version()
        self.path = self._make()
        try:
            subprocess.run(self.wrap(["true"]), check=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            self._remove()
            raise LimitRefused("no process may be moved into a cgroup") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            for pid in (self.path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        self._remove()

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command that moves itself into the cgroup first: all of its memory is charged there."""
        return ["/bin/sh", "-c", _ENTER, str(self.path / "cgroup.procs"), *command]

    def peak_bytes(self) -> int | None:
        """The highest charge; None where the kernel does not say (version 2 before Linux 5.19)."""
        try:
            return int((self.path / self._version.peak).read_text())
        except (OSError, ValueError):
            return None

    def kills(self) -> int:
        """Processes that the kernel killed here for memory."""
        try:
            lines = (self.path / self._version.events).read_text().splitlines()
        except OSError:
            return 0
        return int(dict(line.split() for line in lines).get("oom_kill", 0))

    def _make(self) -> Path:
        refusal = "no cgroup here hands the control of memory down"
        for place in places(self._version):
            path = place / self._name
            try:
                path.mkdir()
            except OSError as error:
                refusal = f"a cgroup cannot be made: {error.strerror}"
                continue
            try:
                self._limit(path)
            except OSError as error:
                refusal = f"its limit cannot be set: {error.strerror}"
                path.rmdir()
                continue
            return path
        raise LimitRefused(refusal)

    def _limit(self, path: Path) -> None:
        if not self._limit_bytes:
            return
        (path / self._version.limit).write_text(str(self._limit_bytes))
        swap = path / self._version.swap_limit
        if swap.exists():
            with contextlib.suppress(OSError):  # swap may be off, or not counted
                swap.write_text("0" if self._version.limit == "memory.max" else str(self._limit_bytes))

    def _remove(self) -> None:
        for _attempt in range(REMOVE_TRIES):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(REMOVE_PAUSE_S)
