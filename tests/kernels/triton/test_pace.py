"""Pauses behind copies, by a clock of the test's: never too early, and no error is added to another."""

import ctypes

import numpy as np
import pytest
import torch

from ebbtide.kernels.triton.pace import STATE_BYTES, begin, end
from tests.helpers.memory_clock import memory_clock

CPU = torch.device("cpu")


class Queue:
    """A queue of copies; looking at the clock takes `look_ns`."""

    def __init__(self, look_ns: int = 1) -> None:
        self.state = np.zeros(STATE_BYTES // 8, np.int64)
        self.state[2:4] = 1 << 40, look_ns  # no clock begins at zero

    @property
    def now_ns(self) -> int:
        return int(self.state[2]) - (1 << 40)

    def copy(self, copy_ns: int, least_ns: int) -> None:
        begin(int(self.state.ctypes.data), CPU, memory_clock)
        self.state[2] += copy_ns
        end(int(self.state.ctypes.data), least_ns, CPU, memory_clock)


@pytest.mark.parametrize(("copy_ns", "ended_ns"), [(0, 1000), (400, 1000), (990, 1000), (5000, 5000)])
def test_a_copy_takes_as_long_as_asked_or_as_it_has_to(copy_ns: int, ended_ns: int) -> None:
    queue = Queue()
    queue.copy(copy_ns, 1000)
    assert ended_ns <= queue.now_ns <= ended_ns + 2  # a look at its beginning, one at its end


@pytest.mark.parametrize("look_ns", [7, 300])
def test_pauses_that_are_too_long_do_not_add_up(look_ns: int) -> None:
    queue = Queue(look_ns)
    for copies in range(1, 40):
        queue.copy(10, 1000)
        # Between two copies a look at the clock goes by, which is time in which nothing is copied.
        assert copies * 1000 <= queue.now_ns <= copies * (1000 + look_ns) + 2 * look_ns


def test_what_is_too_long_once_is_made_up_for_once() -> None:
    queue = Queue(look_ns=300)
    queue.copy(0, 1000)
    early_ns = int(queue.state[1])
    assert 0 < early_ns <= 300
    queue.copy(5000, 1000)  # slower than asked: nothing to make up for
    assert queue.state[1] == 0


def test_time_without_copies_is_lost() -> None:
    queue = Queue()
    queue.copy(0, 1000)
    queue.state[2] += 10**9
    before_ns = queue.now_ns
    queue.copy(0, 1000)
    assert queue.now_ns >= before_ns + 1000 - 1


def test_more_than_32_bits() -> None:
    queue = Queue(look_ns=1 << 34)
    queue.copy(0, 1 << 36)
    assert 1 << 36 <= queue.now_ns <= (1 << 36) + (2 << 34)


def test_a_state_at_a_low_address() -> None:
    """Where the numbers of addresses fit 32 bits, Triton's interpreter takes them for such."""
    private, anonymous, below_2_gib = 0x02, 0x20, 0x40
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = libc.mmap(None, STATE_BYTES, 1 | 2, private | anonymous | below_2_gib, -1, 0)
    assert 0 < address < 1 << 31
    queue = Queue()
    memory = np.ctypeslib.as_array((ctypes.c_int64 * len(queue.state)).from_address(address))
    memory[:] = queue.state
    queue.state = memory
    queue.copy(400, 1000)
    assert 1000 <= queue.now_ns <= 1002
