"""Copies to a card that take at least as long as in a slower slot (`--emulate pcie=...`)."""

import ctypes
import time
from collections.abc import Callable

from ebbtide.engine.device.driver import CudaDriver

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Pace:
    """Adds pauses to a queue of copies; the host and the other queue go on meanwhile.

    `least_seconds` of a number of bytes is how long their copy takes at least. This object has to live until
    the queue is done: the driver calls back into it, on a thread of its own.
    """

    def __init__(self, driver: CudaDriver, stream: int, least_seconds: Callable[[int], float]) -> None:
        self._driver, self._stream, self._least_seconds = driver, stream, least_seconds
        self._began_s = 0.0
        self._calls = _HOST_FUNCTION(self._begin), _HOST_FUNCTION(self._end)

    def before_copy(self) -> None:
        """What is added next is the copy."""
        self._add(0, 0)

    def after_copy(self, nbytes: int) -> None:
        """What was added last was the copy, of so many bytes."""
        self._add(1, nbytes)

    def _add(self, call: int, value: int) -> None:
        stream = ctypes.c_void_p(self._stream)
        self._driver.call("cuLaunchHostFunc", stream, self._calls[call], ctypes.c_void_p(value))

    def _begin(self, _: int | None) -> None:
        self._began_s = time.monotonic()

    def _end(self, nbytes: int | None) -> None:
        left = self._least_seconds(nbytes or 0) - (time.monotonic() - self._began_s)
        if left > 0:
            time.sleep(left)
