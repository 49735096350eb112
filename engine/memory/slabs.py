"""Where slabs come from: the process's own memory, or (engine/device) a card's."""

import ctypes
from typing import Protocol

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.anonymous import U8, anonymous
from ebbtide.engine.sizes import format_bytes


class SlabMemory(Protocol):
    """Memory in large pieces, by address. What is released is seen as free by every other program.

    Used by the step thread. `zero` and `copy` come after all computation begun before them and before all
    begun after them.
    """

    def allocate(self, nbytes: int) -> int:
        """Address of `nbytes` zeroed bytes, aligned to 4 KiB. Raises FitError when there are none."""
        ...

    def release(self, address: int) -> None:
        """Give back what `allocate` gave."""
        ...

    def zero(self, address: int, nbytes: int) -> None:
        """Write zeros."""
        ...

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy between two places of this memory that do not overlap."""
        ...


class HostSlabs:
    """Private anonymous memory; it costs nothing before it is touched."""

    def __init__(self) -> None:
        self._held: dict[int, U8] = {}

    def allocate(self, nbytes: int) -> int:
        """See `SlabMemory.allocate`."""
        try:
            memory = anonymous(nbytes, huge_pages=True)
        except OSError as error:
            raise FitError(
                f"The system refused {format_bytes(nbytes)} of memory: {error}.",
                hint="Close other programs or give a smaller --budget.",
            ) from error
        address = int(memory.ctypes.data)
        self._held[address] = memory
        return address

    def release(self, address: int) -> None:
        """See `SlabMemory.release`. The memory goes with the last array that refers to it."""
        del self._held[address]

    def zero(self, address: int, nbytes: int) -> None:
        """See `SlabMemory.zero`."""
        ctypes.memset(address, 0, nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """See `SlabMemory.copy`."""
        ctypes.memmove(target, source, nbytes)
