"""A card in the process's own memory: the real driver's door, torch on CPU tensors, Triton's interpreter.

Everything that is launched or copied is done late, in any order that the queues allow.
"""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch

from ebbtide.engine.device.driver import CudaDriver
from ebbtide.engine.device.nvml import Nvml
from ebbtide.engine.device.place import Place, open_place
from ebbtide.kernels.triton import pace
from ebbtide.kernels.triton.scatter import scatter
from ebbtide.kernels.triton.stream import Stream
from tests.helpers.fake_cuda import FakeCard, FakeCuda
from tests.helpers.late_queues import LateQueues
from tests.helpers.memory_clock import leaping_clock

COMPUTE = 0x77


class LateStream:
    """See `Stream`: a queue whose work is done when somebody waits, or by the way."""

    def __init__(self, queues: LateQueues) -> None:
        self._queues = queues

    def add(self, deed: Callable[[], object]) -> None:
        self._queues.add(COMPUTE, deed)

    def wait(self) -> None:
        self._queues.mark(COMPUTE).wait()


class HostSide:
    """See `TorchSide`."""

    device = torch.device("cpu")
    stream_handle = COMPUTE
    compiles = False

    def __init__(self, queues: LateQueues) -> None:
        self._queues = queues
        self.stream: Stream = LateStream(queues)
        self.paused_ns = 0
        """What copies were asked to take, all together."""

    def wrap(self, address: int, nbytes: int) -> torch.Tensor:
        return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)))

    def scatter(self, stream: int, staged: int, pages: int, page_bytes: int) -> None:
        self._queues.add(stream, lambda: scatter(staged, pages, page_bytes, self.device))

    def begin_copy(self, stream: int, state: int) -> None:
        self._queues.add(stream, lambda: pace.begin(state, self.device, leaping_clock))

    def end_copy(self, stream: int, state: int, least_ns: int) -> None:
        self.paused_ns += least_ns
        self._queues.add(stream, lambda: pace.end(state, least_ns, self.device, leaping_clock))


class HostCard:
    """A machine with one such card. `library` is its driver, `places` what was opened on it."""

    def __init__(self, seed: int = 0, card: FakeCard | None = None, pinned_quota: int = 1 << 30) -> None:
        queues = LateQueues(seed)
        self.library = FakeCuda([card or FakeCard()], queues=queues, pinned_quota=pinned_quota)
        self.places: list[Place] = []

    def find(self, wish: str) -> tuple[Place | None, str]:
        """Stands for `find_place`."""
        if wish == "cpu":
            return None, ""
        driver = CudaDriver(self.library.opener())
        driver.use(0)
        side = HostSide(self.library.queues)
        nvml = Nvml(SimpleNamespace())  # a library that lacks everything
        self.places.append(open_place(driver.cards()[0], driver, side, nvml))
        return self.places[-1], ""
