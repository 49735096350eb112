"""Which processors a process may use: affinity, quotas, cores and their kinds, on trees like the kernel's."""

from pathlib import Path

import pytest

from ebbtide.engine.processors import Processors, cpu_name, find_processors
from tests.helpers.fake_system import FakeSystem


@pytest.fixture
def system(tmp_path: Path) -> FakeSystem:
    return FakeSystem(tmp_path)


def found(system: FakeSystem, allowed: range = range(16)) -> Processors:
    return find_processors(system.proc, system.sys, set(allowed))


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("200000 100000", 2),
        ("250000 100000", 2),  # rounded down: the third thread would be throttled half of the time
        ("50000 100000", 1),  # never none
        ("1600000 50000", 16),  # more than there are
        ("max 100000", 16),
        ("300000", 3),  # the usual period
        ("", 16),
        ("soon 100000", 16),
        ("200000 0", 16),
        ("-1 100000", 16),
    ],
)
def test_a_quota_of_version_2(system: FakeSystem, text: str, usable: int) -> None:
    system.belongs("0::/user/app\n", "cgroup2")
    system.put_group("user/app", "cpu.max", text)
    assert found(system).usable == usable


def test_quotas_nest_and_the_least_counts(system: FakeSystem) -> None:
    system.belongs("0::/pod/box\n", "cgroup2")
    system.put_group("pod/box", "cpu.max", "800000 100000")
    system.put_group("pod", "cpu.max", "300000 100000")
    system.put_group("", "cpu.max", "max 100000")
    assert found(system).usable == 3
    system.put_group("pod/box", "cpu.max", "200000 100000")
    assert found(system).usable == 2


@pytest.mark.parametrize(("quota", "usable"), [("400000", 4), ("-1", 16), ("", 16)])
def test_a_quota_of_version_1(system: FakeSystem, quota: str, usable: int) -> None:
    system.belongs("4:memory:/x\n3:cpu,cpuacct:/box\n0::/\n", "cgroup", "rw,cpu,cpuacct")
    system.put_group("box", "cpu.cfs_quota_us", quota)
    system.put_group("box", "cpu.cfs_period_us", "100000")
    system.put_group("", "cpu.cfs_quota_us", "-1")
    system.put_group("", "cpu.cfs_period_us", "100000")
    assert found(system).usable == usable


def test_inside_a_container_the_mount_is_the_group(system: FakeSystem) -> None:
    system.belongs("3:cpu:/docker/abc\n", "cgroup", "rw,cpu", root="/docker/abc")
    system.put_group("", "cpu.cfs_quota_us", "200000")
    system.put_group("", "cpu.cfs_period_us", "100000")
    assert found(system).usable == 2


def test_a_quota_of_another_controller_does_not_count(system: FakeSystem) -> None:
    system.belongs("4:memory:/box\n", "cgroup", "rw,memory")
    system.put_group("box", "cpu.cfs_quota_us", "200000")
    system.put_group("box", "cpu.cfs_period_us", "100000")
    assert found(system).quota is None


def test_affinity_below_the_quota(system: FakeSystem) -> None:
    system.belongs("0::/\n", "cgroup2")
    system.put_group("", "cpu.max", "400000 100000")
    told = found(system, range(3))
    assert (told.allowed, told.quota, told.usable) == (3, 4, 3)


def test_cores_are_counted_among_the_processors_that_may_be_used(system: FakeSystem) -> None:
    for core in range(8):
        system.put_core(core, core + 8)
    assert found(system).cores == 8
    assert found(system, range(4)).cores == 4
    assert find_processors(system.proc, system.sys, {0, 8, 1, 9}).cores == 2


def test_performance_cores_as_intel_tells_them(system: FakeSystem) -> None:
    for core in range(8):
        system.put_core(2 * core, 2 * core + 1)
    for core in range(16, 24):
        system.put_core(core)
    system.put_sys("devices/cpu_core/cpus", "0-15")
    system.put_sys("devices/cpu_atom/cpus", "16-23")
    assert found(system, range(24)) == Processors(allowed=24, quota=None, cores=16, fast_cores=8)
    assert found(system, range(16, 24)).fast_cores == 8, "all alike"


def test_performance_cores_as_arm_tells_them(system: FakeSystem) -> None:
    for processor, capacity in enumerate([325] * 4 + [950] * 3 + [1024]):
        system.put_core(processor)
        system.put_processor(processor, "cpu_capacity", str(capacity))
    assert found(system, range(8)) == Processors(allowed=8, quota=None, cores=8, fast_cores=4)


@pytest.mark.parametrize("text", ["", "all", "3-", "9-2"])
def test_lists_that_cannot_be_read_tell_nothing(system: FakeSystem, text: str) -> None:
    for core in range(4):
        system.put_core(core)
    system.put_sys("devices/cpu_core/cpus", text)
    assert found(system, range(4)).fast_cores == 4


def test_systems_that_tell_nothing(tmp_path: Path) -> None:
    told = find_processors(tmp_path / "none", tmp_path / "none", {0, 1, 2})
    assert told.quota is None and told.allowed == told.usable == 3
    assert 1 <= told.cores <= 3 and told.fast_cores == told.cores


def test_this_machine() -> None:
    here = find_processors()
    assert 1 <= here.fast_cores <= here.cores <= here.allowed and here.usable >= 1
    assert cpu_name()
