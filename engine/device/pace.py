"""Copies to a card that take at least as long as in a slower slot (`--emulate pcie=...`)."""

import math
from collections.abc import Callable
from typing import Protocol

STATE_BYTES = 256
"""What the kernels of `kernels/triton/pace.py` keep in the card's memory, zeros at first."""

LeastSeconds = Callable[[int], float]
"""How long a copy of so many bytes takes at least."""


class PaceKernels(Protocol):
    """Adds kernels to a stream of the driver's; `state` is an address on the card."""

    def begin_copy(self, stream: int, state: int) -> None:
        """What is added next is a copy."""
        ...

    def end_copy(self, stream: int, state: int, least_ns: int) -> None:
        """The stream goes on so long after that copy began, at the earliest."""
        ...


class Pace:
    """Adds a pause behind each copy of a queue; the host and the other queue go on meanwhile."""

    def __init__(self, kernels: PaceKernels, stream: int, state: int, least_seconds: LeastSeconds) -> None:
        self._kernels, self._stream, self._state, self._least_seconds = kernels, stream, state, least_seconds

    def before_copy(self) -> None:
        """What is added next is the copy."""
        self._kernels.begin_copy(self._stream, self._state)

    def after_copy(self, nbytes: int) -> None:
        """What was added last was the copy, of so many bytes."""
        least_ns = math.ceil(1e9 * self._least_seconds(nbytes))
        self._kernels.end_copy(self._stream, self._state, least_ns)
