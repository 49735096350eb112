"""The unfinished file of a pack and the journal beside it."""

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import numpy as np

from ebbtide.engine.disk import free_bytes
from ebbtide.engine.errors import FitError, ModelError
from ebbtide.engine.sizes import format_bytes
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.convert import Losses
from ebbtide.engine.weights.pack_plan import PackPlan

try:
    import fcntl
except ImportError:  # Windows: two packers at once are not kept apart.
    fcntl = None  # type: ignore[assignment]

SPARE_BYTES = 16 << 20
"""Room for the file system's own tables."""
_READ_BYTES = 1 << 20


class BeingPacked(ModelError):
    """Another process writes to the same place."""


class Journal(msgspec.Struct):
    """How far the part file is good: its first `done` units. `header` is the plan's header as sha256."""

    header: str
    done: int
    losses: dict[str, list[float]]


class PartFile:
    """`OUT.part`, written at any place by any thread; units count as done only after `checkpoint`.

    Used as a context. On entry a part of the same plan is taken up (`done`, `losses`), any other is begun
    anew. Raises BeingPacked while another process packs to the same place.
    """

    def __init__(self, out_path: Path, plan: PackPlan, *, resume: bool) -> None:
        self.out_path = out_path
        self.path = out_path.with_name(out_path.name + ".part")
        self.done = 0
        self.losses = Losses()
        self._plan = plan
        self._resume = resume
        self._journal = out_path.with_name(out_path.name + ".part.json")
        self._lock = threading.Lock()
        self._fd = -1

    def __enter__(self) -> Self:
        self._fd = self._open()
        try:
            if not (self._resume and self._take_up()):
                self._begin()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def check_space(self) -> None:
        """Raises FitError, with the numbers, when the disk cannot hold the rest of the file.

        A part without any work in it is removed.
        """
        status = os.fstat(self._fd)
        needed = self._plan.total_bytes - getattr(status, "st_blocks", 0) * 512 + SPARE_BYTES
        free = free_bytes(self.path.parent)
        if free is not None and needed > free:
            if not self.done:
                self.discard()
            raise FitError(
                f"The pack needs {format_bytes(needed)} more in {self.path.parent}, "
                f"which has {format_bytes(free)} free",
                hint=f"Free {format_bytes(needed - free)} there, or choose another place with --out.",
            )

    def write(self, offset: int, data: U8) -> None:
        """Store bytes; raises OSError."""
        view, done = np.ascontiguousarray(data).data, 0
        while done < len(view):
            done += self._write_once(view[done:], offset + done)

    def read(self, offset: int, nbytes: int) -> Iterator[bytes]:
        """What is at a place now, in pieces; raises OSError."""
        end = offset + nbytes
        while offset < end:
            data = self._read_once(min(_READ_BYTES, end - offset), offset)
            if not data:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            yield data
            offset += len(data)

    def checkpoint(self, done: int) -> None:
        """Make everything written durable, then record that the first `done` units are good."""
        _sync_data(self._fd)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.done = done
        journal = Journal(self._plan.header_sha256, done, self.losses.sums)
        fresh = self._journal.with_name(self._journal.name + ".new")
        fresh.write_bytes(msgspec.json.encode(journal))
        fresh.replace(self._journal)

    def publish(self) -> None:
        """Make the file whole and durable under its final name."""
        os.fsync(self._fd)
        self._close()
        self.path.replace(self.out_path)
        self._journal.unlink(missing_ok=True)
        _sync_folder(self.out_path.parent)

    def discard(self) -> None:
        """Remove part and journal."""
        self._journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        while True:
            fd = os.open(self.path, flags, 0o644)
            if fcntl is None:
                return fd
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The name may have moved to the finished file between opening and locking.
                if self.path.exists() and os.path.samestat(os.fstat(fd), self.path.stat()):
                    return fd
                os.close(fd)
            except OSError as error:
                os.close(fd)
                raise BeingPacked(
                    f"Another ebbtide is writing {self.out_path.name}",
                    hint="Wait for it, or choose another place with --out.",
                ) from error

    def _take_up(self) -> bool:
        """Continue from the journal, if part and journal belong to this plan."""
        plan = self._plan
        try:
            journal = msgspec.json.decode(self._journal.read_bytes(), type=Journal)
        except (OSError, msgspec.DecodeError):
            return False
        whole = os.fstat(self._fd).st_size == plan.total_bytes and journal.header == plan.header_sha256
        with self.path.open("rb") as stream:
            if not whole or stream.read(len(plan.header)) != plan.header:
                return False
        self.done, self.losses = min(journal.done, len(plan.units)), Losses(journal.losses)
        return True

    def _begin(self) -> None:
        self._journal.unlink(missing_ok=True)
        os.ftruncate(self._fd, 0)
        os.ftruncate(self._fd, self._plan.total_bytes)
        self.write(0, np.frombuffer(self._plan.header, np.uint8))

    def _write_once(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self._fd, view, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.write(self._fd, view)

    def _read_once(self, nbytes: int, offset: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._fd, nbytes, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.read(self._fd, nbytes)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _sync_data(fd: int) -> None:
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(fd)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where folders can be opened at all."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
