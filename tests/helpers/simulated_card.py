"""A card whose queues are worked off late, and in any order that they and their markers allow."""

import ctypes
import random
import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from ebbtide.engine.device.lanes import Marker
from ebbtide.engine.memory.slabs import HostSlabs


class Mark:
    """See `Marker`."""

    def __init__(self, card: "SimulatedCard") -> None:
        self._card, self.is_passed = card, False

    def wait(self) -> None:
        self._card.work_until(lambda: self.is_passed)


class SimulatedCard:
    """Both queues, its memory (the process's own), and a staging memory with a quota.

    `Lanes`, `SlabMemory` and `StagingMemory` in one. Nothing happens before somebody waits or calls `work`.
    """

    def __init__(self, seed: int, pinned_quota: int = 1 << 30) -> None:
        self._chooser = random.Random(seed)
        self._queues: dict[str, deque[Callable[[], bool]]] = {"compute": deque(), "copy": deque()}
        self._lock = threading.RLock()
        self._slabs = HostSlabs()
        self._pieces: list[ctypes.Array[ctypes.c_ubyte]] = []
        self._quota = pinned_quota

    # --- work

    def compute(self, deed: Callable[[], object]) -> None:
        """Add a kernel."""
        self._add("compute", deed)

    def work(self, steps: int) -> None:
        """Do up to so many pieces of work."""
        with self._lock:
            for _ in range(steps):
                if not self._one():
                    return

    def work_until(self, done: Callable[[], bool]) -> None:
        with self._lock:
            while not done():
                assert self._one(), "the queues wait for each other"

    def drain(self) -> None:
        with self._lock:
            while any(self._queues.values()):
                assert self._one(), "the queues wait for each other"

    def _one(self) -> bool:
        """Do the first piece of a queue drawn by lot; False when neither can go on."""
        names = [name for name, queue in self._queues.items() if queue]
        self._chooser.shuffle(names)
        for name in names:
            if self._queues[name][0]():
                self._queues[name].popleft()
                return True
        return False

    def _add(self, name: str, deed: Callable[[], object]) -> None:
        def piece() -> bool:
            deed()
            return True

        with self._lock:
            self._queues[name].append(piece)

    def _mark(self, name: str) -> Mark:
        mark = Mark(self)
        self._add(name, lambda: setattr(mark, "is_passed", True))
        return mark

    def _hold(self, name: str, marker: Marker) -> None:
        assert isinstance(marker, Mark)
        with self._lock:
            self._queues[name].append(lambda: marker.is_passed)

    # --- Lanes

    def computed(self) -> Mark:
        return self._mark("compute")

    def copied(self) -> Mark:
        return self._mark("copy")

    def copying_waits(self, marker: Marker) -> None:
        self._hold("copy", marker)

    def computing_waits(self, marker: Marker) -> None:
        self._hold("compute", marker)

    def upload(self, host: int, device: int, nbytes: int) -> None:
        self._add("copy", lambda: ctypes.memmove(device, host, nbytes))

    def scatter(self, staged: int, pages: int, page_bytes: int) -> None:
        def deed() -> None:
            addresses = (ctypes.c_int64 * pages).from_address(staged + pages * page_bytes)
            for page, address in enumerate(addresses):
                ctypes.memmove(address, staged + page * page_bytes, page_bytes)

        self._add("copy", deed)

    # --- SlabMemory

    def allocate(self, nbytes: int) -> int:
        return self._slabs.allocate(nbytes)

    def release(self, address: int) -> None:
        self.drain()
        self._slabs.release(address)

    def zero(self, address: int, nbytes: int) -> None:
        self.compute(lambda: ctypes.memset(address, 0, nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.compute(lambda: ctypes.memmove(target, source, nbytes))

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
