"""A card in the process's own memory whose two queues run late."""

import ctypes
from collections.abc import Hashable

import numpy as np

from ebbtide.engine.device.lanes import Marker
from ebbtide.engine.memory.slabs import HostSlabs
from tests.helpers.late_queues import LateQueues, Mark

COMPUTE, COPY = "compute", "copy"


def scatter_now(staged: int, pages: int, page_bytes: int) -> None:
    """What `Lanes.scatter` adds to its queue."""
    addresses = (ctypes.c_int64 * pages).from_address(staged + pages * page_bytes)
    for page, address in enumerate(addresses):
        ctypes.memmove(address, staged + page * page_bytes, page_bytes)


class SimulatedCard:
    """`Lanes`, `SlabMemory` and `StagingMemory` in one; pinned memory has a quota."""

    def __init__(self, seed: int, pinned_quota: int = 1 << 30) -> None:
        self.queues = LateQueues(seed)
        self.compute_queue: Hashable = COMPUTE
        self._slabs = HostSlabs()
        self._pieces: list[ctypes.Array[ctypes.c_ubyte]] = []
        self._quota = pinned_quota

    # --- Lanes

    def computed(self) -> Mark:
        return self.queues.mark(COMPUTE)

    def copied(self) -> Mark:
        return self.queues.mark(COPY)

    def copying_waits(self, marker: Marker) -> None:
        assert isinstance(marker, Mark)
        self.queues.hold(COPY, marker)

    def computing_waits(self, marker: Marker) -> None:
        assert isinstance(marker, Mark)
        self.queues.hold(COMPUTE, marker)

    def upload(self, host: int, device: int, nbytes: int) -> None:
        self.queues.add(COPY, lambda: ctypes.memmove(device, host, nbytes))

    def scatter(self, staged: int, pages: int, page_bytes: int) -> None:
        self.queues.add(COPY, lambda: scatter_now(staged, pages, page_bytes))

    # --- SlabMemory

    def allocate(self, nbytes: int) -> int:
        return self._slabs.allocate(nbytes)

    def release(self, address: int) -> None:
        self.queues.drain()
        self._slabs.release(address)

    def zero(self, address: int, nbytes: int) -> None:
        self.queues.add(COMPUTE, lambda: ctypes.memset(address, 0, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.queues.add(COMPUTE, lambda: ctypes.memmove(target, source, nbytes))

    # --- StagingMemory

    def pinned(self, nbytes: int) -> int:
        if nbytes > self._quota:
            raise MemoryError("no pinned memory is left")
        self._quota -= nbytes
        return self.ordinary(nbytes)

    def ordinary(self, nbytes: int) -> int:
        piece = (ctypes.c_ubyte * nbytes)()
        np.ctypeslib.as_array(piece)[:] = 0xEE
        self._pieces.append(piece)
        return ctypes.addressof(piece)

    def device(self, nbytes: int) -> int:
        return self.ordinary(nbytes)
