"""What the operating system says about this process and this machine. Every figure may be missing."""

import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from ebbtide.engine.memory.budget import headroom_bytes
from ebbtide.engine.memory.cgroups import CgroupMemory, tightest_limit

PROC = Path("/proc")


@dataclass(frozen=True)
class Observed:
    """Bytes; None = the system does not say."""

    process_bytes: int | None = None
    process_peak_bytes: int | None = None
    process_swap_bytes: int | None = None
    """More than 0 means that memory was overrun."""
    available_bytes: int | None = None
    total_bytes: int | None = None
    cgroup: CgroupMemory | None = None

    @property
    def whole_bytes(self) -> int:
        """All memory that this process may ever have: the machine's, or its cgroup's limit; 0 = not known."""
        limits = [self.total_bytes, self.cgroup.limit_bytes if self.cgroup is not None else None]
        return min((limit for limit in limits if limit), default=0)

    @property
    def free_bytes(self) -> int | None:
        """What this process may still have: the free memory of machine and cgroup."""
        inside = self.cgroup.free_bytes if self.cgroup is not None else None
        return min((free for free in (self.available_bytes, inside) if free is not None), default=None)

    @property
    def budget_room_bytes(self) -> int | None:
        """What `--budget auto` may take: the free memory of machine and cgroup, less a headroom."""
        room = None
        if self.available_bytes is not None and self.total_bytes is not None:
            room = self.available_bytes - headroom_bytes(self.total_bytes)
        if self.cgroup is not None:
            inside = self.cgroup.free_bytes - headroom_bytes(self.cgroup.limit_bytes)
            room = inside if room is None else min(room, inside)
        return None if room is None else max(0, room)


def observe(proc: Path = PROC) -> Observed:
    """Read all figures now (a fraction of a millisecond)."""
    status = _status(proc)
    machine = psutil.virtual_memory()
    return Observed(
        process_bytes=status.get("VmRSS", _resident_bytes()),
        process_peak_bytes=process_peak_bytes(proc),
        process_swap_bytes=status.get("VmSwap"),
        available_bytes=int(machine.available),
        total_bytes=int(machine.total),
        cgroup=tightest_limit(proc),
    )


def process_peak_bytes(proc: Path = PROC) -> int | None:
    """The most resident memory this process ever had."""
    peak = _status(proc).get("VmHWM")
    return _portable_peak() if peak is None else peak


def _status(proc: Path) -> dict[str, int]:
    """The sizes in /proc/self/status, in bytes; empty where there is none."""
    try:
        lines = (proc / "self/status").read_text().splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(value) << 10 for name, value, _ in sizes}


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def _portable_peak() -> int | None:
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
