"""Tensors in memory that is taken from the driver: all of it is counted, and all of it goes back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ebbtide.engine.errors import FitError
from ebbtide.engine.sizes import format_bytes

PIECE_BYTES = 1 << 20
"""Small tensors share a piece of this size: the driver hands out memory in large units."""
SHARED_BYTES = 64 << 10
"""Tensors up to this size do."""
ALIGNMENT = 256
"""As the driver's own; kernels may load 16 bytes at once."""

_TYPES = {np.float32: torch.float32, np.int32: torch.int32, np.int64: torch.int64, np.uint8: torch.uint8}


class TensorMemory:
    """`take` gives the address of so many bytes or raises MemoryError; `wrap` makes a u8 tensor of them."""

    def __init__(self, take: Callable[[int], int], wrap: Callable[[int, int], torch.Tensor]) -> None:
        self._take, self._wrap = take, wrap
        self._piece: torch.Tensor | None = None
        self._used = 0
        self.held_bytes = 0

    def empty(self, shape: tuple[int, ...], kind: torch.dtype) -> torch.Tensor:
        """A tensor with any contents. Raises FitError when the card has no memory left."""
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = count * kind.itemsize
        room = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return self._room(room)[:nbytes].view(kind)[:count].view(shape)

    def zeros(self, shape: tuple[int, ...], kind: Any) -> Any:
        """A tensor of zeros; `kind` is numpy's name of the type."""
        return self.empty(shape, _TYPES[kind]).zero_()

    def _room(self, nbytes: int) -> torch.Tensor:
        if nbytes > SHARED_BYTES:
            return self._own(nbytes)
        if self._piece is None or self._used + nbytes > PIECE_BYTES:
            self._piece, self._used = self._own(PIECE_BYTES), 0
        start, self._used = self._used, self._used + nbytes
        return self._piece[start : self._used]

    def _own(self, nbytes: int) -> torch.Tensor:
        try:
            address = self._take(nbytes)
        except MemoryError as error:
            raise FitError(
                f"The card has no {format_bytes(nbytes)} left.",
                hint="Close other programs that use the card, give a smaller --budget, or use --device cpu.",
            ) from error
        self.held_bytes += nbytes
        return self._wrap(address, nbytes)
