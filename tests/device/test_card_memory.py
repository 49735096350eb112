"""A card's memory from NVML and CUDA: partial, absent and impossible figures."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide.engine.device.card_memory import card_memory
from ebbtide.engine.device.driver import Card, DriverError
from ebbtide.engine.device.nvml import Nvml

GIB = 1 << 30
UUID = "0f0e0d0c-0b0a-0908-0706-050403020100"
CARD = Card(0, "RTX 3060", UUID, (8, 6), 12 * GIB, False)


class FakeNvml:
    """Looks like pynvml; attributes are what it reports, an exception is raised instead."""

    def __init__(self, total: int = 12 * GIB, free: int = 9 * GIB, prefix: str = "GPU-") -> None:
        self.total, self.free, self.prefix = total, free, prefix
        self.compute: list[Any] | Exception = [
            SimpleNamespace(pid=os.getpid(), usedGpuMemory=2 * GIB),
            SimpleNamespace(pid=7, usedGpuMemory=GIB),
        ]

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own names
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid != self.prefix + UUID:
            raise RuntimeError("Not Found")
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(total=self.total, free=self.free)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        if isinstance(self.compute, Exception):
            raise self.compute
        return self.compute

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        return []


def test_nvml_tells_what_is_free_and_who_has_the_rest() -> None:
    found = card_memory(CARD, Nvml(FakeNvml()).memory(UUID), lambda: (9 * GIB, 12 * GIB))
    assert (found.source, found.notice) == ("nvml", "")
    assert (found.free_bytes, found.own_bytes, found.others_bytes) == (9 * GIB, 2 * GIB, GIB)


def test_a_mig_instance_is_found_by_its_own_uuid() -> None:
    assert Nvml(FakeNvml(prefix="MIG-")).memory(UUID).free_bytes == 9 * GIB


def test_a_whole_cards_figure_for_a_mig_instance_is_not_believed() -> None:
    found = card_memory(
        CARD, Nvml(FakeNvml(total=80 * GIB, free=70 * GIB)).memory(UUID), lambda: (5 * GIB, 12 * GIB)
    )
    assert (found.source, found.free_bytes, found.total_bytes) == ("cuda", 5 * GIB, 12 * GIB)
    assert "another amount of memory" in found.notice


@pytest.mark.parametrize(
    ("total", "free"), [(0, 0), (12 * GIB, 13 * GIB), (12 * GIB, -1), (2**64 - 1, 2**64 - 1)]
)
def test_impossible_figures_are_nobodys(total: int, free: int) -> None:
    found = card_memory(CARD, Nvml(FakeNvml(total, free)).memory(UUID), lambda: (4 * GIB, 12 * GIB))
    assert (found.source, found.free_bytes) == ("cuda", 4 * GIB)
    assert found.notice


def test_where_the_two_disagree_about_free_memory_cuda_is_believed() -> None:
    found = card_memory(CARD, Nvml(FakeNvml(free=11 * GIB)).memory(UUID), lambda: (3 * GIB, 12 * GIB))
    assert (found.source, found.free_bytes) == ("cuda", 3 * GIB)


def test_without_nvml_and_context_free_memory_is_unknown_not_a_number() -> None:
    def refuse() -> tuple[int, int]:
        raise DriverError("no context", 201)

    nothing = Nvml(SimpleNamespace()).memory(UUID)
    for cuda in (None, refuse):
        found = card_memory(CARD, nothing, cuda)
        assert (found.source, found.free_bytes, found.total_bytes) == ("none", None, 12 * GIB)
        assert "unknown" in found.notice


def test_one_program_without_a_figure_makes_the_others_sum_unknown() -> None:
    nvml = FakeNvml()
    nvml.compute = [
        SimpleNamespace(pid=os.getpid(), usedGpuMemory=GIB),
        SimpleNamespace(pid=7, usedGpuMemory=None),
    ]
    found = card_memory(CARD, Nvml(nvml).memory(UUID))
    assert (found.free_bytes, found.own_bytes, found.others_bytes) == (9 * GIB, GIB, None)
    assert "each program" in found.notice


def test_programs_that_may_not_be_listed_cost_only_their_own_figures() -> None:
    nvml = FakeNvml()
    nvml.compute = RuntimeError("Insufficient Permissions")
    found = card_memory(CARD, Nvml(nvml).memory(UUID))
    assert (found.free_bytes, found.own_bytes, found.others_bytes) == (9 * GIB, None, None)
    assert "Insufficient Permissions" in found.notice
