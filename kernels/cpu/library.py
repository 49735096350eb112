"""The compiled library: finding it, loading it, calling it.

It is plain C: pointers and integers in, a status out. `python packaging/build_kernels.py` builds it.
"""

import ctypes
import sys
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.ops import KernelError

ISAS = ("portable", "avx2", "avxvnni", "avx512", "amx")
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARY_PATH = Path(__file__).with_name(f"_ebbtide_cpu{_SUFFIX}")
SPARE_THREADS = 8
"""Threads that a process needs besides: readers of the disk, an observer, one for each viewer."""
_STATUS = {
    1: "the workspace is too small",
    2: "a chosen expert is not in fast memory",
    3: "an index is out of range",
    4: "sizes do not match",
}


@cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises OSError where it is missing."""
    lib = ctypes.CDLL(str(LIBRARY_PATH))
    declare(lib)
    return lib


def declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the argument types of the functions that make a context."""
    lib.eb_create.restype = ctypes.c_void_p
    lib.eb_create.argtypes = [ctypes.c_int] * 3
    lib.eb_threads.argtypes = [ctypes.c_void_p]
    lib.eb_destroy.argtypes = [ctypes.c_void_p]
    lib.eb_destroy.restype = None
    lib.eb_set_workspace.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    lib.eb_set_workspace.restype = None


def best_isa() -> str:
    """The best instruction set that the library holds and this machine can run."""
    return ISAS[library().eb_best_isa()]


def check(status: int) -> None:
    """Raise KernelError for a status other than 0."""
    if status:
        raise KernelError(_STATUS.get(status, f"kernel status {status}"))


def address(array: NDArray[np.generic]) -> int:
    """Address of the first element."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a third of the time of `.ctypes`
    except (TypeError, ValueError):  # read-only, empty or strided
        return array.ctypes.data


class Handle:
    """A context of the library: instruction set, threads, workspace. Calls are one at a time.

    Where the system starts fewer than `threads` threads, those that it does start compute, all but a few.
    Raises KernelError where the library refuses.
    """

    def __init__(self, isa: str, threads: int, spin_us: int = 100) -> None:
        self._context = ctypes.c_void_p()
        self._workspace: NDArray[np.uint8] | None = None
        self._lib = library()
        self._create(isa, threads, spin_us)
        if self.threads < threads:
            # At the limit the process could start no thread of another kind: some are given back.
            least = max(1, self.threads - SPARE_THREADS)
            if least < self.threads:
                self.close()
                self._create(isa, least, spin_us)

    def _create(self, isa: str, threads: int, spin_us: int) -> None:
        context = self._lib.eb_create(ISAS.index(isa), threads, spin_us)
        if not context:
            raise KernelError(f"the library refuses {isa}: it may not be used here, or no memory is left")
        self._context = ctypes.c_void_p(context)
        self.threads = int(self._lib.eb_threads(self._context))
        """That compute, the caller's counted."""

    @property
    def library(self) -> ctypes.CDLL:
        """The library that made the context."""
        return self._lib

    @property
    def context(self) -> ctypes.c_void_p:
        """The C context, first argument of every operation."""
        return self._context

    def set_workspace(self, buffer: NDArray[np.uint8]) -> None:
        """Lend `buffer` as scratch; it is kept alive."""
        self._workspace = buffer
        self._lib.eb_set_workspace(self._context, address(buffer), buffer.nbytes)

    def close(self) -> None:
        """Stop the threads; no call may follow."""
        if self._context:
            self._lib.eb_destroy(self._context)
            self._context = ctypes.c_void_p()

    def __del__(self) -> None:
        self.close()
