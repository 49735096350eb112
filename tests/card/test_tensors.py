"""Tensors over memory of the driver's: aligned, apart, counted; an end that is said."""

import ctypes

import numpy as np
import pytest
import torch

from ebbtide.engine.device.tensors import ALIGNMENT, PIECE_BYTES, SHARED_BYTES, TensorMemory
from ebbtide.engine.errors import FitError


class Pieces:
    """Host memory, up to a limit."""

    def __init__(self, limit: int = 1 << 30) -> None:
        self.left, self.sizes = limit, list[int]()
        self._kept: list[ctypes.Array[ctypes.c_ubyte]] = []

    def take(self, nbytes: int) -> int:
        if nbytes > self.left:
            raise MemoryError
        self.left -= nbytes
        self.sizes.append(nbytes)
        piece = (ctypes.c_ubyte * (nbytes + ALIGNMENT))()
        self._kept.append(piece)
        return -(-ctypes.addressof(piece) // ALIGNMENT) * ALIGNMENT

    def wrap(self, address: int, nbytes: int) -> torch.Tensor:
        return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)))


def test_small_tensors_share_a_piece_and_none_overlaps() -> None:
    pieces = Pieces()
    memory = TensorMemory(pieces.take, pieces.wrap)
    shapes = [(3, 5), (1,), (0, 7), (SHARED_BYTES // 4,), (SHARED_BYTES // 4 + 1,), (2, 2, 2)]
    tensors = [memory.empty(shape, torch.float32) for shape in shapes]
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    for number, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        assert tensor.shape == shape and (tensor == number).all() and tensor.is_contiguous()
        assert tensor.numel() == 0 or tensor.data_ptr() % ALIGNMENT == 0
    assert pieces.sizes == [PIECE_BYTES, SHARED_BYTES + ALIGNMENT]
    assert memory.held_bytes == sum(pieces.sizes)


def test_zeros_are_zeros() -> None:
    pieces = Pieces()
    memory = TensorMemory(pieces.take, pieces.wrap)
    for kind in (np.float32, np.int32, np.int64, np.uint8):
        found = memory.zeros((2, 3), kind)
        assert found.numpy().dtype == kind and not found.any()


def test_the_end_of_the_memory_is_said_and_nothing_is_counted() -> None:
    pieces = Pieces(PIECE_BYTES)
    memory = TensorMemory(pieces.take, pieces.wrap)
    memory.empty((8,), torch.float32)
    with pytest.raises(FitError, match=r"The card has no 4\.0 MiB left"):
        memory.empty((1 << 20,), torch.float32)
    assert memory.held_bytes == PIECE_BYTES
    assert memory.empty((8,), torch.float32).numel() == 8
