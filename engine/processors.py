"""Which processors this process may compute on, and of what kind they are, as the system tells."""

import contextlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

from ebbtide.engine.cgroups import PROC, GroupFolder, group_folders

SYS = Path("/sys")
_PERIOD_US = 100_000
"""Of a quota that names none."""
_FAST_SHARE = 0.75
"""Of the best core's capacity: fast ones have it; even alike cores are a little apart."""


class Processors(NamedTuple):
    """Counts, all at least 1."""

    allowed: int
    """Processors (hardware threads) that the affinity mask holds."""
    quota: int | None
    """Processors' time that the tightest cgroup grants, rounded down: more threads than that are throttled.
    None = no limit."""
    cores: int
    """Physical cores among the allowed processors."""
    fast_cores: int
    """Performance cores among them; all, where they are alike or nothing tells them apart."""

    @property
    def usable(self) -> int:
        """Threads that can run at the same time."""
        return self.allowed if self.quota is None else min(self.allowed, self.quota)


def find_processors(proc: Path = PROC, system: Path = SYS, allowed: Set[int] | None = None) -> Processors:
    """Look now; `allowed` = numbers of processors, the affinity mask by default."""
    numbers = _affinity() if allowed is None else allowed
    cores = _cores(system, numbers)
    fast = _cores(system, _fast(system, numbers))
    count = len(cores) or _counted_cores(len(numbers))
    return Processors(len(numbers), _quota(proc), count, len(fast) or count)


def cpu_name() -> str:
    """The processor's name in the system's own words."""
    match = re.search(r"^model name\s*:\s*(.+)$", _read(PROC / "cpuinfo"), re.MULTILINE)
    if match:
        return match.group(1).strip()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def _affinity() -> Set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _quota(proc: Path) -> int | None:
    """The least of all levels."""
    shares = [share for folder in group_folders("cpu", proc) if (share := _share(folder)) is not None]
    return max(1, int(min(shares))) if shares else None


def _share(folder: GroupFolder) -> float | None:
    """Processors' time per time. None without a limit: "max", version 1's -1, or no such file."""
    if folder.version == 2:
        words = _read(folder.path / "cpu.max").split()
    else:
        words = [_read(folder.path / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if not words or not all(word.isdigit() for word in words):
        return None
    period = int(words[1]) if len(words) > 1 else _PERIOD_US
    return int(words[0]) / period if period > 0 else None


def _cores(system: Path, numbers: Set[int]) -> Set[str]:
    """Each core of `numbers` once, named by its hardware threads; none where the system does not say."""
    return {_of_processor(system, number, "topology/thread_siblings_list") for number in numbers} - {""}


def _counted_cores(allowed: int) -> int:
    import psutil

    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def _fast(system: Path, numbers: Set[int]) -> Set[int]:
    """Those on performance cores: Intel's driver lists them, ARM's gives each processor a capacity."""
    listed = _listed(_read(system / "devices/cpu_core/cpus")) & numbers
    if listed:
        return listed
    texts = {number: _of_processor(system, number, "cpu_capacity") for number in numbers}
    capacities = {number: int(text) for number, text in texts.items() if text.isdigit()}
    best = max(capacities.values(), default=0)
    return {number for number, capacity in capacities.items() if capacity >= _FAST_SHARE * best}


def _listed(text: str) -> Set[int]:
    """Numbers of a list as the kernel writes it: `0-7,16`. Empty where it is none."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if ends is None:
            return set()
        numbers.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return numbers


def _of_processor(system: Path, number: int, name: str) -> str:
    return _read(system / f"devices/system/cpu/cpu{number}" / name).strip()


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
