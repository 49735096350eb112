"""Memory cgroups on a tree of ordinary files that looks like the kernel's."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.app import memory_cgroup
from ebbtide.app.compare import limits
from ebbtide.app.memory_cgroup import LimitRefused, MemoryCgroup, find_version, places
from ebbtide.engine.sizes import MIB

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell enters the cgroup")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree. Files in it do not vanish with their folder as the kernel's do."""
    root = tmp_path / "cgroup"
    root.mkdir()
    monkeypatch.setattr(memory_cgroup, "SYSTEM", root)
    monkeypatch.setattr(memory_cgroup, "OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(memory_cgroup, "DROP_CACHES", tmp_path / "drop_caches")
    monkeypatch.setattr(memory_cgroup, "REMOVE_TRIES", 1)
    monkeypatch.setattr(memory_cgroup, "REMOVE_PAUSE_S", 0)
    return root


def version_1(system: Path) -> Path:
    root = system / "memory"
    (root / "mine").mkdir(parents=True)
    (root / "memory.limit_in_bytes").write_text("9223372036854771712")
    (system.parent / "own").write_text("5:cpu,cpuacct:/other\n4:memory:/mine\n")
    return root


def version_2(system: Path, *delegating: str) -> Path:
    """`delegating`: folders whose children may have a memory limit; the own one is user/session."""
    (system / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (system.parent / "own").write_text("0::/user/session\n")
    (system / "user" / "session").mkdir(parents=True)
    for folder in ("", "user", "user/session"):
        (system / folder / "cgroup.subtree_control").write_text("memory" if folder in delegating else "")
    return system


def test_version_1_goes_below_the_own_cgroup(system: Path) -> None:
    root = version_1(system)
    assert places(find_version()) == [root / "mine", root]
    with MemoryCgroup("race", 1 << 30) as group:
        assert group.path == root / "mine" / "race"
        assert (group.path / "memory.limit_in_bytes").read_text() == str(1 << 30)
        (group.path / "memory.max_usage_in_bytes").write_text("12345\n")
        (group.path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
        assert group.peak_bytes() == 12345 and group.kills() == 2


def test_version_2_goes_where_memory_is_handed_down(system: Path) -> None:
    version_2(system, "user")
    with MemoryCgroup("race", 1 << 30) as group:
        assert group.path == system / "user" / "race"
        assert (group.path / "memory.max").read_text() == str(1 << 30)
        assert group.peak_bytes() is None and group.kills() == 0
        (group.path / "memory.events").write_text("max 7\noom 1\noom_kill 1\n")
        assert group.kills() == 1


def test_version_2_without_delegation_is_refused(system: Path) -> None:
    version_2(system)
    with pytest.raises(LimitRefused, match="hands"), MemoryCgroup("race", 1 << 30):
        pass


def test_no_cgroups_at_all(system: Path) -> None:
    with pytest.raises(LimitRefused, match="no memory cgroups"), MemoryCgroup("race", 1 << 30):
        pass


def test_a_folder_that_cannot_be_made_is_refused(system: Path) -> None:
    version_1(system)
    for place in ("", "mine"):
        (system / "memory" / place / "race").write_text("in the way")
    with pytest.raises(LimitRefused, match="cannot be made"), MemoryCgroup("race", 1 << 30):
        pass


def test_no_process_may_enter(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version_1(system)
    monkeypatch.setattr(memory_cgroup, "_ENTER", "exit 1")
    with pytest.raises(LimitRefused, match="moved"), MemoryCgroup("race", 1 << 30):
        pass


def test_the_command_enters_first(system: Path) -> None:
    version_1(system)
    with MemoryCgroup("race", 0) as group:
        code = "import os; print(os.getpid())"
        done = subprocess.run(
            group.wrap([sys.executable, "-c", code]), capture_output=True, text=True, check=True
        )
        assert (group.path / "cgroup.procs").read_text() == done.stdout
        assert not (group.path / "memory.limit_in_bytes").exists()
        (group.path / "cgroup.procs").write_text("")


def test_both_contenders_get_one_and_what_is_left_is_the_budget(system: Path) -> None:
    root = version_1(system)
    with limits.memory_limits(1 << 30) as given:
        assert given.ours is not None and given.theirs is not None
        assert given.ours.path != given.theirs.path and given.ours.path.parent == root / "mine"
        assert replace(given, room_bytes=2 << 30).budget == f"{1024 - limits.PROCESS_BYTES // MIB}MiB"
        assert replace(given, room_bytes=800 * MIB).budget == "auto", "more than is free is no use"
        for group in (given.ours, given.theirs):
            (group.path / "cgroup.procs").write_text("")
    assert (system.parent / "drop_caches").read_text() == "3"
    with limits.memory_limits(None) as none:
        assert none == limits.Limits() and none.budget is None


def test_caches_that_cannot_be_dropped_are_told(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version_1(system)
    monkeypatch.setattr(memory_cgroup, "DROP_CACHES", system / "nowhere" / "drop_caches")
    with limits.memory_limits(1 << 30) as given:
        assert "page cache" in given.note and given.ours is not None and given.theirs is not None
        for group in (given.ours, given.theirs):
            (group.path / "cgroup.procs").write_text("")


def test_a_limit_that_is_refused_is_a_note(system: Path) -> None:
    with limits.memory_limits(1 << 30) as given:
        assert given.ours is None and given.budget is None and "1.0 GiB" in given.note
    assert not os.listdir(system)  # noqa: PTH208
