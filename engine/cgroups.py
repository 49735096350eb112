"""The cgroups (version 1 or 2) that this process is in, for whatever controller limits it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class GroupFolder(NamedTuple):
    """A folder of limits; those of a version have the same names everywhere."""

    path: Path
    version: int


def group_folders(controller: str, proc: Path = PROC) -> Iterator[GroupFolder]:
    """Folders from this process's groups up to their mounts: limits nest. `controller`: `memory`, `cpu`.

    A folder of version 2 may be one that `controller` is not switched on for, so a file may be missing.
    """
    try:
        mounts = (proc / "self/mountinfo").read_text().splitlines()
        own = _own_paths((proc / "self/cgroup").read_text())
    except OSError:
        return
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind[:1] == ["cgroup2"]:
            version, path = 2, own.get("")
        elif kind[:1] == ["cgroup"] and controller in kind[-1].split(","):
            version, path = 1, own.get(controller)
        else:
            continue
        mount = Path(fields[4].replace("\\040", " "))
        # Inside a container the group may lie outside the mount: then the mount is all there is to see.
        inside = _below(path, fields[3]) if path is not None else None
        folder = mount / inside if inside else mount
        for step in (folder, *folder.parents):
            yield GroupFolder(step, version)
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
