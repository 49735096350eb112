"""Folders that look like /proc, /sys and a cgroup mount to who reads limits and processors from them."""

from pathlib import Path


class FakeSystem:
    """A /proc, a /sys and a cgroup mount below a folder."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys, self.mount = root / "proc", root / "sys", root / "cgroup mount"
        (self.proc / "self").mkdir(parents=True)

    def belongs(self, lines: str, kind: str, options: str = "rw", root: str = "/") -> None:
        """This process's groups (as /proc/self/cgroup names them), and where they are mounted."""
        mount = str(self.mount).replace(" ", "\\040")
        disk = "22 1 0:1 / / rw - ext4 /dev/vda rw"
        group = f"32 31 0:29 {root} {mount} rw shared:3 - {kind} none {options}"
        (self.proc / "self/mountinfo").write_text(f"{disk}\n{group}\n")
        (self.proc / "self/cgroup").write_text(lines)

    def v2(self, path: str, limit: str, usage: int, inactive: int = 0) -> None:
        """A memory group of version 2."""
        self.put_group(path, "memory.max", limit)
        self.put_group(path, "memory.current", str(usage))
        self.put_group(path, "memory.stat", f"anon 5\ninactive_file {inactive}")

    def v1(self, path: str, limit: int, usage: int, inactive: int = 0) -> None:
        """A memory group of version 1."""
        self.put_group(path, "memory.limit_in_bytes", str(limit))
        self.put_group(path, "memory.usage_in_bytes", str(usage))
        self.put_group(path, "memory.stat", f"inactive_file 1\ntotal_inactive_file {inactive}")

    def put_group(self, path: str, name: str, text: str) -> None:
        """A file of the group `path`."""
        _write(self.mount / path / name, text)

    def put_sys(self, path: str, text: str) -> None:
        """A file below /sys."""
        _write(self.sys / path, text)

    def put_core(self, *processors: int) -> None:
        """A core whose hardware threads are these."""
        for processor in processors:
            self.put_processor(processor, "topology/thread_siblings_list", ",".join(map(str, processors)))

    def put_processor(self, processor: int, name: str, text: str) -> None:
        """A file about one processor."""
        self.put_sys(f"devices/system/cpu/cpu{processor}/{name}", text)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")
