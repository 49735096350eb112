"""Positioned reads that bypass the page cache where the system allows it, straight into caller's memory."""

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.codes import U8

DIRECT_ALIGN = 4096
"""Offsets, lengths and addresses of direct reads are multiples of this many bytes."""
_IOV_MAX = 1024
_F_NOCACHE = 48
_WINDOW_BYTES = 1 << 20
"""Size of a thread's bounce buffer, for reads whose ends are not aligned."""

Target = tuple[int, int]
"""(address, bytes) of a piece of writable memory."""


class DirectFile:
    """A file open for reading by any number of threads; nothing that is read stays in the page cache.

    `notice` says in a sentence when the file system has no direct I/O, else it is empty. Every read raises
    ModelError when the bytes cannot be had in full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.direct = False
        self.notice = ""
        self._lock = threading.Lock()
        self._local = threading.local()
        try:
            self._fd = self._open()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file; reads fail from then on. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, nbytes: int) -> U8:
        """Bytes u8[nbytes] from `offset` on, in a buffer of this thread that its next `read` overwrites."""
        start = offset - offset % DIRECT_ALIGN
        size = -(-(offset + nbytes - start) // DIRECT_ALIGN) * DIRECT_ALIGN
        buffer = self._bounce(size)
        self._fill([memoryview(buffer)[:size]], start, offset + nbytes - start)
        return np.frombuffer(buffer, np.uint8, nbytes, offset - start)

    def read_into(self, offset: int, out: U8) -> None:
        """Fill `out` u8[n] (contiguous) from `offset` on; without a copy where both are aligned."""
        done = 0
        if offset % DIRECT_ALIGN == 0 and out.ctypes.data % DIRECT_ALIGN == 0:
            done = out.size - out.size % DIRECT_ALIGN
            if done:
                self._fill([out[:done].data], offset, done)
        while done < out.size:
            piece = min(_WINDOW_BYTES, out.size - done)
            out[done : done + piece] = self.read(offset + done, piece)
            done += piece

    def scatter(self, offset: int, targets: Sequence[Target]) -> int:
        """Fill the targets one after the other from `offset` on; returns the bytes read.

        The offset and every target must be aligned to DIRECT_ALIGN in address and size.
        """
        joined = _joined(targets)
        views = [memoryview((ctypes.c_char * size).from_address(at)).cast("B") for at, size in joined]
        total = sum(size for _, size in joined)
        for first in range(0, len(views), _IOV_MAX):
            some = views[first : first + _IOV_MAX]
            size = sum(map(len, some))
            self._fill(some, offset, size)
            offset += size
        return total

    def _open(self) -> int:
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if sys.platform == "linux":
            try:
                fd = os.open(self.path, flags | os.O_DIRECT)
            except OSError:
                fd = -1
            if fd >= 0 and self._direct_works(fd):
                return fd
        fd = os.open(self.path, flags)
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(fd, _F_NOCACHE, 1)
            self.direct = True
        else:
            self.notice = (
                f"The file system of {self.path.parent} has no direct reads: weights are read through the "
                "system's cache, which is dropped after each read."
            )
        return fd

    def _direct_works(self, fd: int) -> bool:
        """Some file systems accept the flag and refuse the read."""
        try:
            os.preadv(fd, [memoryview(self._bounce(DIRECT_ALIGN))[:DIRECT_ALIGN]], 0)
        except OSError:
            os.close(fd)
            return False
        self.direct = True
        return True

    def _bounce(self, size: int) -> mmap.mmap:
        buffer: mmap.mmap | None = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._local.buffer = mmap.mmap(-1, max(size, _WINDOW_BYTES + 2 * DIRECT_ALIGN))
        return buffer

    def _fill(self, views: list[memoryview], offset: int, needed: int) -> None:
        """Read into `views` until at least `needed` bytes are there; short reads are continued."""
        done = 0
        while done < needed:
            try:
                got = self._read_once(views, offset + done)
            except OSError as error:
                raise self._failed(error) from error
            if got <= 0:
                raise ModelError(
                    f"{self.path.name} ended at byte {offset + done}, {needed - done} bytes too soon",
                    hint="The file was cut short or replaced while in use; fetch or pack it again.",
                )
            done += got
            if done < needed:
                views = _after(views, got)
        if not self.direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, offset, needed, os.POSIX_FADV_DONTNEED)

    def _read_once(self, views: list[memoryview], offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._fd, views, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            data = os.read(self._fd, len(views[0]))
            views[0][: len(data)] = data
            return len(data)

    def _failed(self, error: OSError) -> ModelError:
        return ModelError(
            f"{self.path.name} cannot be read: {error.strerror or error}",
            hint="Check the path, its permissions and the health of the disk.",
        )


def _joined(targets: Sequence[Target]) -> list[Target]:
    """Targets with neighbours in memory made one."""
    joined: list[Target] = []
    for address, size in targets:
        if joined and joined[-1][0] + joined[-1][1] == address:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((address, size))
    return joined


def _after(views: list[memoryview], taken: int) -> list[memoryview]:
    """What is left of `views` after their first `taken` bytes."""
    for index, view in enumerate(views):
        if taken < len(view):
            return [view[taken:], *views[index + 1 :]]
        taken -= len(view)
    return []
