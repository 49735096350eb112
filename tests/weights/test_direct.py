"""Direct reads: any offset, scattered targets, short reads, faults, file systems without direct I/O."""

import errno
import mmap
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.direct import DIRECT_ALIGN, DirectFile

SIZE = 3 * (1 << 20) + 1234  # not a multiple of the alignment, larger than the bounce buffer


@pytest.fixture
def data() -> bytes:
    return np.random.default_rng(1).bytes(SIZE)


@pytest.fixture
def path(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "weights.bin"
    file.write_bytes(data)
    return file


def memory(nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Page-aligned memory."""
    return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)


@pytest.mark.parametrize(
    ("offset", "nbytes"),
    [(0, 1), (4095, 2), (4096, 4096), (12345, 2_000_000), (SIZE - 1, 1), (0, SIZE), (SIZE - 5000, 5000)],
)
def test_reads_any_range(path: Path, data: bytes, offset: int, nbytes: int) -> None:
    file = DirectFile(path)
    assert file.read(offset, nbytes).tobytes() == data[offset : offset + nbytes]
    out = memory(SIZE)[:nbytes]
    file.read_into(offset, out)
    assert out.tobytes() == data[offset : offset + nbytes]
    file.close()


def test_scatters_into_pages_in_the_order_given(path: Path, data: bytes) -> None:
    pool = memory(8 * DIRECT_ALIGN).reshape(8, DIRECT_ALIGN)
    order = [5, 2, 3, 0]  # 2 and 3 are neighbours in memory
    targets = [(pool[page].ctypes.data, DIRECT_ALIGN) for page in order]
    assert DirectFile(path).scatter(2 * DIRECT_ALIGN, targets) == 4 * DIRECT_ALIGN
    for i, page in enumerate(order):
        assert pool[page].tobytes() == data[(2 + i) * DIRECT_ALIGN : (3 + i) * DIRECT_ALIGN]
    assert not pool[[1, 4, 6, 7]].any()


def test_short_reads_are_continued(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv

    def short(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        return whole(fd, [buffers[0][:DIRECT_ALIGN]], offset)

    file = DirectFile(path)
    monkeypatch.setattr(os, "preadv", short)
    assert file.read(100, 50_000).tobytes() == data[100:50_100]
    out = memory(6 * DIRECT_ALIGN)
    base = out.ctypes.data
    file.scatter(0, [(base, 2 * DIRECT_ALIGN), (base + 4 * DIRECT_ALIGN, DIRECT_ALIGN)])
    assert out[: 2 * DIRECT_ALIGN].tobytes() == data[: 2 * DIRECT_ALIGN]
    assert out[4 * DIRECT_ALIGN : 5 * DIRECT_ALIGN].tobytes() == data[2 * DIRECT_ALIGN : 3 * DIRECT_ALIGN]


def test_a_file_that_ends_early_is_named(path: Path) -> None:
    with pytest.raises(ModelError, match=r"weights\.bin ended at byte"):
        DirectFile(path).read(SIZE - 10, 11)


def test_a_file_cut_short_while_open_is_named(path: Path) -> None:
    file = DirectFile(path)
    os.truncate(path, 5000)
    with pytest.raises(ModelError, match="ended at byte 5000"):
        file.read(0, 10_000)


def test_a_disk_fault_is_an_error_that_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = DirectFile(path)
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(ModelError, match="Input/output error"):
        file.read(0, 10)


def test_a_missing_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        DirectFile(tmp_path / "gone.gguf")


@pytest.mark.parametrize("refuses", ["open", "read"])
def test_without_direct_io_it_reads_on_and_says_so(
    path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    """tmpfs refuses the flag, 9p the read."""
    opened, read = os.open, os.preadv
    direct_fds: set[int] = set()

    def open_(file: Path, flags: int) -> int:
        if flags & os.O_DIRECT and refuses == "open":
            raise OSError(errno.EINVAL, "refused")
        fd = opened(file, flags)
        if flags & os.O_DIRECT:
            direct_fds.add(fd)
        return fd

    def preadv(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        if fd in direct_fds:
            direct_fds.discard(fd)
            raise OSError(errno.EINVAL, "refused")
        return read(fd, buffers, offset)

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "preadv", preadv)
    file = DirectFile(path)
    assert not file.direct and "no direct reads" in file.notice
    assert file.read(777, 100_000).tobytes() == data[777:100_777]


def test_without_positioned_reads_it_seeks(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "preadv")
    monkeypatch.delattr(os, "posix_fadvise")
    file = DirectFile(path)
    assert file.read(777, 100_000).tobytes() == data[777:100_777]


def test_threads_do_not_disturb_each_other(path: Path, data: bytes) -> None:
    file = DirectFile(path)

    def read(i: int) -> bool:
        offset = i * 7919 % (SIZE - 5000)
        return file.read(offset, 5000).tobytes() == data[offset : offset + 5000]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(400)))
