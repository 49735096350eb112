"""A system that does not start all threads that are asked for: fewer compute, and the process goes on."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from ebbtide.kernels.cpu import library
from ebbtide.kernels.cpu.library import LIBRARY_PATH, SPARE_THREADS, Handle
from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import F32, KernelError, WorkspaceShape, contiguous_table

ROOM_BYTES = 256 << 20
"""Address space for the stacks of a few dozen threads: 2 to 8 MiB each."""
WISH = 512
LIMITED = f"""
import resource, threading
from pathlib import Path
from ebbtide.kernels.cpu.ops import CpuOps
from tests.kernels.test_few_threads import product

alone = product(CpuOps("portable", 1))
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + {ROOM_BYTES}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
ops = CpuOps("portable", {WISH})
assert (product(ops) == alone).all(), "another number of threads gives other bits"
done = threading.Event()
others = [threading.Thread(target=done.wait) for _ in range(3)]
for other in others:
    other.start()
done.set()
print(ops.threads)
"""


def product(ops: CpuOps) -> F32:
    """64 rows times a matrix, which all threads have a part in."""
    layout = block_layout([MatrixShape(512, 64, FORMATS["Q4_0"])], page_bytes=0, floor_planes=1)
    codes = np.random.default_rng(0).integers(0, 64, layout.span_bytes, np.uint8)
    shape = WorkspaceShape(64, 64, 512, 0, 1, 0, 16, 1, 64)
    ops.set_workspace(np.zeros(ops.workspace_bytes(shape), np.uint8))
    out = np.zeros((64, 512), np.float32)
    ops.linear(np.ones((64, 64), np.float32), contiguous_table(layout, codes), out)
    return out


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the address space has no limit")
def test_fewer_threads_compute_where_no_more_can_be_started() -> None:
    # One heap: glibc reserves 64 MiB and more for each further one, and how many it makes is a race.
    env = os.environ | {"MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert 1 < int(done.stdout) < WISH


def refuse_threads(monkeypatch: pytest.MonkeyPatch, *started: int) -> list[int]:
    """The library, as it is where so many threads were there after each `eb_create`; returns its wishes."""
    real = ctypes.CDLL(str(LIBRARY_PATH))
    library.declare(real)
    counts, wishes = iter(started), list[int]()

    class Refusing:
        eb_destroy, eb_set_workspace = real.eb_destroy, real.eb_set_workspace

        def eb_create(self, isa: int, threads: int, spin_us: int) -> int | None:
            wishes.append(threads)
            count = next(counts)
            made: int | None = real.eb_create(isa, count, spin_us) if count else None
            return made

        def eb_threads(self, context: ctypes.c_void_p) -> int:
            return int(real.eb_threads(context))

    monkeypatch.setattr(library, "library", Refusing)
    return wishes


@pytest.mark.parametrize(("started", "left"), [(20, 20 - SPARE_THREADS), (SPARE_THREADS, 1), (1, 1)])
def test_some_threads_are_left_to_the_rest_of_the_process(
    monkeypatch: pytest.MonkeyPatch, started: int, left: int
) -> None:
    wishes = refuse_threads(monkeypatch, started, left)
    handle = Handle("portable", 64)
    assert handle.threads == left
    assert wishes == ([64, left] if left < started else [64])


def test_all_threads_are_kept_where_all_could_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    wishes = refuse_threads(monkeypatch, 5)
    assert Handle("portable", 5).threads == 5 and wishes == [5]


def test_a_context_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch, 0)
    with pytest.raises(KernelError, match="portable"):
        Handle("portable", 2)
