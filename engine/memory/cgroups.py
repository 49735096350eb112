"""Memory limits that a cgroup (version 1 or 2) puts on this process; limits nest, the tightest counts."""

from pathlib import Path
from typing import NamedTuple

from ebbtide.engine.cgroups import PROC, group_folders

_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as a number near 2^63."""


class CgroupMemory(NamedTuple):
    """One group. `usage_bytes` is without page cache that the kernel would drop first."""

    limit_bytes: int
    usage_bytes: int

    @property
    def free_bytes(self) -> int:
        return max(0, self.limit_bytes - self.usage_bytes)


class _Files(NamedTuple):
    limit: str
    usage: str
    inactive: str


_FILES = {
    1: _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: _Files("memory.max", "memory.current", "inactive_file"),
}


def tightest_limit(proc: Path = PROC) -> CgroupMemory | None:
    """The group with the least room among this process's and all above it; None without any limit."""
    folders = group_folders("memory", proc)
    groups = [group for path, version in folders if (group := _read_group(path, _FILES[version]))]
    return min(groups, key=lambda group: group.free_bytes, default=None)


def smallest_limit(proc: Path = PROC) -> int | None:
    """The least bytes that a group on the way up allows, however full it is; None without any limit."""
    folders = group_folders("memory", proc)
    limits = [limit for path, version in folders if (limit := _limit(path, _FILES[version])) is not None]
    return min(limits, default=None)


def _read_group(folder: Path, files: _Files) -> CgroupMemory | None:
    limit = _limit(folder, files)
    if limit is None:
        return None
    try:
        usage = int((folder / files.usage).read_text())
        return CgroupMemory(limit, max(0, usage - _inactive(folder, files)))
    except (OSError, ValueError):
        return None


def _limit(folder: Path, files: _Files) -> int | None:
    """None without one: "max", version 1's huge number, no such file."""
    try:
        limit = int((folder / files.limit).read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < _UNLIMITED else None


def _inactive(folder: Path, files: _Files) -> int:
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == files.inactive:
            return int(value)
    return 0
