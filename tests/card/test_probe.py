"""The kernel that a card has to get right before a model is put on it."""

import pytest

from ebbtide.engine.device import probe
from ebbtide.engine.device.choice import Unusable
from ebbtide.engine.device.driver import CudaDriver
from tests.helpers.fake_cuda import FakeCuda
from tests.helpers.host_card import HostCard, HostSide
from tests.helpers.late_queues import LateQueues


class WrongSide(HostSide):
    """Launches that do nothing."""

    def __init__(self) -> None:
        super().__init__(LateQueues(0))
        self.stream.add = lambda deed: None  # type: ignore[method-assign]


def test_right_numbers_pass() -> None:
    probe.try_product(HostSide(LateQueues(0)))


def test_wrong_numbers_do_not() -> None:
    with pytest.raises(Unusable, match="wrong numbers"):
        probe.try_product(WrongSide())


def test_a_torch_without_cuda_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(Unusable, match="built for the processor only") as caught:
        probe.probe_card(CudaDriver(FakeCuda().opener()).cards()[0])
    assert "pip install" in caught.value.hint


def test_a_kernel_that_fails_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(index: int) -> None:
        raise RuntimeError("CUDA error: no kernel image\nCompile with ...")

    monkeypatch.setattr("torch.version.cuda", "12.8")
    monkeypatch.setattr("ebbtide.engine.device.torch_side.CudaSide", broken)
    with pytest.raises(Unusable, match=r"failed \(CUDA error: no kernel image\)"):
        probe.probe_card(CudaDriver(FakeCuda().opener()).cards()[0])


def test_memory_of_a_place_is_what_the_driver_leaves(card: HostCard) -> None:
    place, _ = card.find("auto")
    assert place is not None
    # 12 GiB of which others hold 1, less a sixteenth of all as headroom.
    assert place.room_bytes == (11 << 30) - (12 << 30) // 16 and "NVML" in place.notice
    place.close()
