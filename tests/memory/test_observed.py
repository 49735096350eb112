from pathlib import Path

import pytest

from ebbtide.engine.memory.cgroups import CgroupMemory, smallest_limit, tightest_limit
from ebbtide.engine.memory.observed import Observed, observe, process_peak_bytes
from tests.helpers.fake_system import FakeSystem

GIB = 1 << 30


@pytest.fixture
def system(tmp_path: Path) -> FakeSystem:
    return FakeSystem(tmp_path)


def test_version_2(system: FakeSystem) -> None:
    system.belongs("0::/user/app\n", "cgroup2")
    system.v2("user/app", str(2 * GIB), GIB, inactive=GIB // 4)
    assert tightest_limit(system.proc) == CgroupMemory(2 * GIB, GIB - GIB // 4)


def test_limits_nest_and_the_tightest_counts(system: FakeSystem) -> None:
    system.belongs("0::/user/app\n", "cgroup2")
    system.v2("user/app", str(4 * GIB), GIB)
    system.v2("user", str(5 * GIB), 4 * GIB)
    system.v2("", "max", 6 * GIB)
    assert tightest_limit(system.proc) == CgroupMemory(5 * GIB, 4 * GIB)


def test_the_smallest_limit_is_not_always_the_tightest(system: FakeSystem) -> None:
    system.belongs("0::/user/app\n", "cgroup2")
    system.v2("user/app", str(4 * GIB), GIB)
    system.v2("user", str(5 * GIB), 4 * GIB)
    system.v2("", "max", 6 * GIB)
    assert smallest_limit(system.proc) == 4 * GIB


@pytest.mark.parametrize("limit", ["max", "", "soon", str(2**63 - 4096)])
def test_no_smallest_limit(system: FakeSystem, limit: str) -> None:
    system.belongs("0::/a\n", "cgroup2")
    system.v2("a", limit, GIB)
    assert smallest_limit(system.proc) is None and smallest_limit(system.proc / "nothing") is None


def test_version_1(system: FakeSystem) -> None:
    system.belongs("9:cpu:/x\n4:memory:/box\n0::/\n", "cgroup", "rw,memory")
    system.v1("box", GIB, GIB // 2, inactive=GIB // 8)
    system.v1("", 2**63 - 4096, 30 * GIB)
    group = tightest_limit(system.proc)
    assert group == CgroupMemory(GIB, GIB // 2 - GIB // 8)
    assert group.free_bytes == GIB // 2 + GIB // 8


def test_other_controllers_do_not_count(system: FakeSystem) -> None:
    system.belongs("4:memory:/box\n", "cgroup", "rw,cpu")
    system.v1("box", GIB, 0)
    assert tightest_limit(system.proc) is None


def test_inside_a_container_the_mount_is_the_group(system: FakeSystem) -> None:
    system.belongs("4:memory:/docker/abc\n", "cgroup", "rw,memory", root="/docker/abc")
    system.v1("", GIB, GIB // 4)
    assert tightest_limit(system.proc) == CgroupMemory(GIB, GIB // 4)


def test_a_group_outside_the_mount(system: FakeSystem) -> None:
    system.belongs("0::/../../elsewhere\n", "cgroup2")
    system.v2("", str(GIB), 0)
    assert tightest_limit(system.proc) == CgroupMemory(GIB, 0)


@pytest.mark.parametrize("limit", ["max", "", "soon"])
def test_no_limit_is_none(system: FakeSystem, limit: str) -> None:
    system.belongs("0::/a\n", "cgroup2")
    system.v2("a", limit, GIB)
    assert tightest_limit(system.proc) is None


def test_systems_without_any_of_it(tmp_path: Path, system: FakeSystem) -> None:
    assert tightest_limit(tmp_path / "nothing") is None
    system.belongs("0::/gone\n", "cgroup2")
    assert tightest_limit(system.proc) is None


def test_an_overfull_group_has_no_room() -> None:
    assert CgroupMemory(GIB, 2 * GIB).free_bytes == 0


def test_status_figures(system: FakeSystem) -> None:
    (system.proc / "self/status").write_text(
        "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nVmSwap:\t 4 kB\n"
    )
    seen = observe(system.proc)
    assert (seen.process_peak_bytes, seen.process_bytes, seen.process_swap_bytes) == (2 << 20, 1 << 20, 4096)


def test_this_process_whatever_the_system(tmp_path: Path) -> None:
    for seen in (observe(), observe(tmp_path / "nothing")):
        assert seen.process_bytes is not None and seen.process_bytes > 1 << 20
        assert seen.available_bytes is not None and seen.total_bytes is not None
        assert 0 < seen.available_bytes <= seen.total_bytes
    assert observe(tmp_path / "nothing").process_swap_bytes is None
    for peak in (process_peak_bytes(), process_peak_bytes(tmp_path / "nothing")):
        assert peak is not None and peak > 1 << 20


def test_room_for_auto() -> None:
    machine = Observed(available_bytes=10 * GIB, total_bytes=16 * GIB)
    assert machine.budget_room_bytes == 9 * GIB
    boxed = Observed(available_bytes=10 * GIB, total_bytes=16 * GIB, cgroup=CgroupMemory(2 * GIB, GIB))
    assert boxed.budget_room_bytes == GIB - (384 << 20)
    assert Observed(cgroup=CgroupMemory(GIB, GIB)).budget_room_bytes == 0
    assert Observed().budget_room_bytes is None


def test_what_is_free_is_more_than_the_room_for_auto() -> None:
    cgroup = CgroupMemory(2 * GIB, GIB)
    assert Observed(available_bytes=10 * GIB, total_bytes=16 * GIB).free_bytes == 10 * GIB
    assert Observed(available_bytes=10 * GIB, total_bytes=16 * GIB, cgroup=cgroup).free_bytes == GIB
    assert Observed(available_bytes=GIB // 2, total_bytes=16 * GIB, cgroup=cgroup).free_bytes == GIB // 2
    assert Observed(cgroup=cgroup).free_bytes == GIB
    assert Observed().free_bytes is None
