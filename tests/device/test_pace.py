"""Copies of an emulated bus: never faster than it, and never slower than need be."""

import ctypes

import pytest

from ebbtide.engine.device.card import CudaCard
from ebbtide.engine.device.driver import CudaDriver
from tests.helpers.fake_cuda import FakeCuda


class Clock:
    """A copy takes `copy_s`; a sleep takes what was asked."""

    def __init__(self) -> None:
        self.now_s, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.mark.parametrize(("copy_s", "slept"), [(0.0, [0.5, 0.25]), (0.375, [0.125]), (1.0, [])])
def test_what_a_copy_is_short_of_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, copy_s: float, slept: list[float]
) -> None:
    clock = Clock()
    monkeypatch.setattr("ebbtide.engine.device.pace.time", clock)
    library = FakeCuda()
    driver = CudaDriver(library.opener())
    driver.use(0)
    card = CudaCard(driver, 0x77, lambda *_: None)
    card.pace(lambda nbytes: nbytes / 1024)
    here, there = (ctypes.c_ubyte * 512)(*range(200)), (ctypes.c_ubyte * 512)()
    moved = library._later_move

    def slowly(target: int, source: int, size: int, stream: ctypes.c_void_p) -> None:
        moved(target, source, size, stream)
        library.queues.add(stream.value, lambda: setattr(clock, "now_s", clock.now_s + copy_s))

    library._later_move = slowly  # type: ignore[method-assign]
    card.upload(ctypes.addressof(here), ctypes.addressof(there), 512)
    card.upload(ctypes.addressof(here), ctypes.addressof(there), 256)
    assert clock.slept == [] and not any(there), "the host does not wait"
    card.copied().wait()
    assert bytes(there) == bytes(here) and clock.slept == slept
    card.close()


def test_without_a_pace_nothing_is_added() -> None:
    library = FakeCuda()
    driver = CudaDriver(library.opener())
    driver.use(0)
    card = CudaCard(driver, 0x77, lambda *_: None)
    here = (ctypes.c_ubyte * 16)()
    card.upload(ctypes.addressof(here), ctypes.addressof((ctypes.c_ubyte * 16).from_buffer(here)), 16)
    assert "cuLaunchHostFunc" not in library.calls
    card.close()
