"""A card's memory and its two queues, on the CUDA driver: `SlabMemory`, `StagingMemory` and `Lanes` in one.

The computing queue is the stream that kernels are launched on (torch's); the copying queue is one of its own.
"""

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress

from ebbtide.engine.device.driver import CudaDriver, DriverError
from ebbtide.engine.device.lanes import Marker
from ebbtide.engine.device.pace import STATE_BYTES, LeastSeconds, Pace, PaceKernels
from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.anonymous import U8, anonymous
from ebbtide.engine.sizes import format_bytes

_NON_BLOCKING = 1
_NO_TIMING = 2

Scatter = Callable[[int, int, int, int], None]
"""(stream, staged, pages, page_bytes): launches the kernel that `Lanes.scatter` describes on that stream."""


def _destroy(driver: CudaDriver, event: ctypes.c_void_p) -> None:
    """On whatever thread the last reference went."""
    with suppress(DriverError):  # a lost card's: there is nothing to give back
        driver.attach()
        driver.call("cuEventDestroy_v2", event)


class Event:
    """See `Marker`."""

    def __init__(self, driver: CudaDriver, stream: int) -> None:
        self._driver = driver
        found = ctypes.c_void_p()
        driver.call("cuEventCreate", ctypes.byref(found), _NO_TIMING)
        self.handle = found
        # The driver keeps what an event that is still outstanding needs.
        weakref.finalize(self, _destroy, driver, found).atexit = False
        driver.call("cuEventRecord", found, ctypes.c_void_p(stream))

    def wait(self) -> None:
        """See `Marker.wait`."""
        self._driver.attach()
        self._driver.call("cuEventSynchronize", self.handle)


class CudaCard:
    """`compute_stream` is the handle of the stream that kernels run on; its context is this thread's."""

    def __init__(self, driver: CudaDriver, compute_stream: int, scatter: Scatter) -> None:
        self._driver, self._compute, self._scatter = driver, compute_stream, scatter
        stream = ctypes.c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        self._copy = stream.value or 0
        self._pace: Pace | None = None
        self._slabs: dict[int, int] = {}
        self._pinned: list[int] = []
        self._ordinary: list[U8] = []
        self._device: list[int] = []

    def pace(self, least_seconds: LeastSeconds, kernels: PaceKernels) -> None:
        """From now on a copy of so many bytes takes `least_seconds` of them at least."""
        state, stream = self.device(STATE_BYTES), ctypes.c_void_p(self._copy)
        self._driver.call("cuMemsetD8Async", ctypes.c_uint64(state), 0, ctypes.c_size_t(STATE_BYTES), stream)
        self._pace = Pace(kernels, self._copy, state, least_seconds)
        self._pace.before_copy()  # its kernels are compiled now, not while the first copy is waited for
        self._pace.after_copy(0)

    # --- Lanes

    def computed(self) -> Event:
        """See `Lanes.computed`."""
        return Event(self._driver, self._compute)

    def copied(self) -> Event:
        """See `Lanes.copied`."""
        return Event(self._driver, self._copy)

    def copying_waits(self, marker: Marker) -> None:
        """See `Lanes.copying_waits`."""
        self._hold(self._copy, marker)

    def computing_waits(self, marker: Marker) -> None:
        """See `Lanes.computing_waits`."""
        self._hold(self._compute, marker)

    def upload(self, host: int, device: int, nbytes: int) -> None:
        """See `Lanes.upload`."""
        there, here = ctypes.c_uint64(device), ctypes.c_void_p(host)
        stream = ctypes.c_void_p(self._copy)
        if self._pace is not None:
            self._pace.before_copy()
        self._driver.call("cuMemcpyHtoDAsync_v2", there, here, ctypes.c_size_t(nbytes), stream)
        if self._pace is not None:
            self._pace.after_copy(nbytes)

    def scatter(self, staged: int, pages: int, page_bytes: int) -> None:
        """See `Lanes.scatter`."""
        self._scatter(self._copy, staged, pages, page_bytes)

    def _hold(self, stream: int, marker: Marker) -> None:
        assert isinstance(marker, Event)
        self._driver.call("cuStreamWaitEvent", ctypes.c_void_p(stream), marker.handle, 0)

    # --- SlabMemory

    def allocate(self, nbytes: int) -> int:
        """See `SlabMemory.allocate`."""
        try:
            address = self._driver.allocate(nbytes)
        except DriverError as error:
            if not error.out_of_memory:
                raise
            free, total = self._driver.memory()
            raise FitError(
                f"The card has no {format_bytes(nbytes)} left: {format_bytes(free)} of {format_bytes(total)} "
                "are free.",
                hint="Close other programs that use the card, or give a smaller --budget.",
            ) from error
        self._slabs[address] = nbytes
        self.zero(address, nbytes)
        return address

    def release(self, address: int) -> None:
        """See `SlabMemory.release`. Waits until nothing in either queue can still touch it."""
        del self._slabs[address]
        self._driver.call("cuCtxSynchronize")
        self._driver.free(address)

    def zero(self, address: int, nbytes: int) -> None:
        """See `SlabMemory.zero`."""
        place, stream = ctypes.c_uint64(address), ctypes.c_void_p(self._compute)
        self._driver.call("cuMemsetD8Async", place, 0, ctypes.c_size_t(nbytes), stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """See `SlabMemory.copy`."""
        there, here = ctypes.c_uint64(target), ctypes.c_uint64(source)
        stream = ctypes.c_void_p(self._compute)
        self._driver.call("cuMemcpyDtoDAsync_v2", there, here, ctypes.c_size_t(nbytes), stream)

    # --- StagingMemory

    def pinned(self, nbytes: int) -> int:
        """See `StagingMemory`."""
        return self._kept(self._driver.allocate_pinned, nbytes, self._pinned)

    def ordinary(self, nbytes: int) -> int:
        """See `StagingMemory`."""
        piece = anonymous(nbytes)
        self._ordinary.append(piece)
        return int(piece.ctypes.data)

    def device(self, nbytes: int) -> int:
        """See `StagingMemory`."""
        return self._kept(self._driver.allocate, nbytes, self._device)

    def _kept(self, allocate: Callable[[int], int], nbytes: int, kept: list[int]) -> int:
        try:
            address = allocate(nbytes)
        except DriverError as error:
            if not error.out_of_memory:
                raise
            raise MemoryError(str(error)) from error
        kept.append(address)
        return address

    def close(self) -> None:
        """Give back all of it, slabs included, once both queues are done."""
        self._driver.call("cuCtxSynchronize")
        for address in (*self._slabs, *self._device):
            self._driver.free(address)
        for address in self._pinned:
            self._driver.free_pinned(address)
        self._driver.call("cuStreamDestroy_v2", ctypes.c_void_p(self._copy))
        self._slabs.clear()
        for kept in (self._device, self._pinned, self._ordinary):
            kept.clear()
