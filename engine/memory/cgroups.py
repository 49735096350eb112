"""Memory limits that a cgroup (version 1 or 2) puts on this process; limits nest, the tightest counts."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


def tightest_limit(proc: Path = Path("/proc")) -> CgroupMemory | None:
    """The group with the least room among this process's and all above it; None without any limit."""
    groups = [group for folder, files in _folders(proc) if (group := _read_group(folder, files))]
    return min(groups, key=lambda group: group.free_bytes, default=None)


def _folders(proc: Path) -> Iterator[tuple[Path, _Files]]:
    """Folders from this process's groups up to their mounts."""
    try:
        mounts = (proc / "self/mountinfo").read_text().splitlines()
        own = _own_paths((proc / "self/cgroup").read_text())
    except OSError:
        return
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind[:1] == ["cgroup2"]:
            files, path = _V2, own.get("")
        elif kind[:1] == ["cgroup"] and "memory" in kind[-1].split(","):
            files, path = _V1, own.get("memory")
        else:
            continue
        mount = Path(fields[4].replace("\\040", " "))
        # Inside a container the group may lie outside the mount: then the mount is all there is to see.
        inside = _below(path, fields[3]) if path is not None else None
        folder = mount / inside if inside else mount
        for step in (folder, *folder.parents):
            yield step, files
            if step == mount:
                break


def _own_paths(text: str) -> dict[str, str]:
    """Controller name ("" = version 2) -> group path."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _below(path: str, root: str) -> str | None:
    try:
        inside = str(Path(path).relative_to(root))
    except ValueError:
        return None
    return None if ".." in inside else inside


def _read_group(folder: Path, files: _Files) -> CgroupMemory | None:
    try:
        limit = (folder / files.limit).read_text().strip()
        usage = int((folder / files.usage).read_text())
        if limit == "max" or int(limit) >= _UNLIMITED:
            return None
        return CgroupMemory(int(limit), max(0, usage - _inactive(folder, files)))
    except (OSError, ValueError):
        return None


def _inactive(folder: Path, files: _Files) -> int:
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == files.inactive:
            return int(value)
    return 0
