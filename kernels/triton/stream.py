"""The queue that kernels are launched on."""

from collections.abc import Callable
from typing import Protocol

import torch


class Stream(Protocol):
    """Work is done in the order in which it was added; the host adds it and goes on."""

    def add(self, deed: Callable[[], object]) -> None:
        """Launch kernels, or begin copies. Tensors that `deed` uses live on; their contents may be late."""
        ...

    def wait(self) -> None:
        """Return when all that was added is done."""
        ...


class AtOnce:
    """No queue: for a device whose work is done when a launch returns."""

    def add(self, deed: Callable[[], object]) -> None:
        """See `Stream.add`."""
        deed()

    def wait(self) -> None:
        """See `Stream.wait`."""


class CudaStream:
    """The calling thread's current stream of a card; launches and copies go to it by themselves."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def add(self, deed: Callable[[], object]) -> None:
        """See `Stream.add`."""
        deed()

    def wait(self) -> None:
        """See `Stream.wait`."""
        torch.cuda.current_stream(self._device).synchronize()
