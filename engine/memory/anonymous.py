"""Private anonymous memory as numpy arrays."""

import mmap
import sys

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]


def anonymous(nbytes: int, *, huge_pages: bool = False) -> U8:
    """`nbytes` of zeroed private memory, aligned to the system's page size.

    Nothing is charged to the process before it is touched; the memory goes back to the system when the last
    array that refers to it dies. `huge_pages` asks for transparent huge pages where the system has them.
    Raises OSError when the address space or the commit limit is exhausted.
    """
    if sys.platform == "win32":
        memory = mmap.mmap(-1, nbytes)
    else:
        # Python's default is MAP_SHARED, which is shared memory: other limits, other accounting, no huge
        # pages.
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge_pages:
            _ask_for_huge_pages(memory)
    return np.frombuffer(memory, np.uint8)


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        try:
            memory.madvise(advice)
        except OSError:
            return  # a kernel built without them: ordinary pages serve
