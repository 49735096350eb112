"""Copies of an emulated bus: a pause behind each, in the same queue; `kernels/triton/test_pace.py` has the
rest.
"""

import ctypes

from ebbtide.engine.device.card import CudaCard
from ebbtide.engine.device.driver import CudaDriver
from tests.helpers.fake_cuda import FakeCuda


class Kernels:
    """Write down what they do when they do it."""

    def __init__(self, library: FakeCuda) -> None:
        self._library = library
        self.done: list[tuple[str, int]] = []
        self.state = b""

    def begin_copy(self, stream: int, state: int) -> None:
        self._library.queues.add(stream, lambda: self._begin(state))

    def end_copy(self, stream: int, state: int, least_ns: int) -> None:
        self._library.queues.add(stream, lambda: self.done.append(("end", least_ns)))

    def _begin(self, state: int) -> None:
        self.state = ctypes.string_at(state, 16)
        self.done.append(("begin", state))


def card_of(library: FakeCuda) -> CudaCard:
    driver = CudaDriver(library.opener())
    driver.use(0)
    return CudaCard(driver, 0x77, lambda *_: None)


def test_each_copy_has_a_pause_behind_it_and_the_host_goes_on() -> None:
    library = FakeCuda()
    card, kernels = card_of(library), Kernels(library)
    card.pace(lambda nbytes: nbytes / 3e9, kernels)
    (state,) = library.blocks
    card.copied().wait()
    assert kernels.done == [("begin", state), ("end", 0)] and kernels.state == bytes(16)
    kernels.done.clear()
    here, there = (ctypes.c_ubyte * 512)(*range(200)), (ctypes.c_ubyte * 512)()
    moved = library._later_move

    def copy(target: int, source: int, size: int, stream: ctypes.c_void_p) -> None:
        moved(target, source, size, stream)
        library.queues.add(stream.value, lambda: kernels.done.append(("copy", size)))

    library._later_move = copy  # type: ignore[method-assign]
    for size in (512, 256):
        card.upload(ctypes.addressof(here), ctypes.addressof(there), size)
    assert kernels.done == [] and not any(there)
    card.copied().wait()
    # Rounded up: never faster than asked.
    assert kernels.done == [
        *(("begin", state), ("copy", 512), ("end", 171)),
        *(("begin", state), ("copy", 256), ("end", 86)),
    ]
    assert bytes(there) == bytes(here)
    card.close()
    assert library.blocks == {}


def test_without_a_pace_nothing_is_added() -> None:
    library = FakeCuda()
    card = card_of(library)
    here = (ctypes.c_ubyte * 16)()
    card.upload(ctypes.addressof(here), ctypes.addressof((ctypes.c_ubyte * 16).from_buffer(here)), 16)
    assert library.blocks == {} and library.calls.count("cuMemcpyHtoDAsync_v2") == 1
    card.close()
