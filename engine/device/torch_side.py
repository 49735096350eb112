"""A card as torch and Triton see it: tensors over memory of the driver's, the stream that kernels run on."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from ebbtide.kernels.triton import pace
from ebbtide.kernels.triton.scatter import scatter
from ebbtide.kernels.triton.stream import CudaStream, Stream


class TorchSide(Protocol):
    """What is torch's about a card; `stream_handle` is the driver's name of `stream`."""

    device: torch.device
    stream_handle: int
    stream: Stream
    compiles: bool
    """Whether kernels are made at their first launch, which takes seconds."""

    def wrap(self, address: int, nbytes: int) -> torch.Tensor:
        """u8 tensor over memory that lives as long as it."""
        ...

    def scatter(self, stream: int, staged: int, pages: int, page_bytes: int) -> None:
        """Launch the copy that `Lanes.scatter` describes on a stream of the driver's."""
        ...

    def begin_copy(self, stream: int, state: int) -> None:
        """See `PaceKernels`."""
        ...

    def end_copy(self, stream: int, state: int, least_ns: int) -> None:
        """See `PaceKernels`."""
        ...


class _Memory:
    """Memory that torch takes over without a copy."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class CudaSide:
    """See `TorchSide`. Making it makes the card's context, and torch's current device on this thread."""

    compiles = True

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)
        torch.cuda.set_device(self.device)
        self.stream: Stream = CudaStream(self.device)
        self.stream_handle = int(torch.cuda.current_stream(self.device).cuda_stream)

    def wrap(self, address: int, nbytes: int) -> torch.Tensor:
        """See `TorchSide.wrap`."""
        return torch.as_tensor(_Memory(address, nbytes), device=self.device)

    def scatter(self, stream: int, staged: int, pages: int, page_bytes: int) -> None:
        """See `TorchSide.scatter`."""
        with self._on(stream):
            scatter(staged, pages, page_bytes, self.device)

    def begin_copy(self, stream: int, state: int) -> None:
        """See `PaceKernels`."""
        with self._on(stream):
            pace.begin(state, self.device)

    def end_copy(self, stream: int, state: int, least_ns: int) -> None:
        """See `PaceKernels`."""
        with self._on(stream):
            pace.end(state, least_ns, self.device)

    def _on(self, stream: int) -> AbstractContextManager[object]:
        """Launches inside go to that stream."""
        found: AbstractContextManager[object] = torch.cuda.stream(
            torch.cuda.ExternalStream(stream, device=self.device)
        )
        return found
