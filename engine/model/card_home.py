"""Dense weights in a card's memory."""

from collections.abc import Callable
from typing import cast

import numpy as np
import torch

from ebbtide.engine.device.tensors import TensorMemory
from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.model.weights import F32, U8
from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.ops import HUGE_PAGE_BYTES, BlockTable, Pages


class CardHome:
    """See `Home`. Everything goes through ordinary memory, a block at a time, before it is on the card."""

    def __init__(self, memory: TensorMemory) -> None:
        self._memory = memory

    def block(self, layout: BlockLayout, read: Callable[[U8], None]) -> BlockTable:
        """See `Home.block`."""
        nbytes = max(layout.span_bytes, 1)
        there = self._memory.empty((nbytes,), torch.uint8)
        here = anonymous(nbytes)
        read(here[: layout.span_bytes])
        there.copy_(torch.from_numpy(here))
        pages = Pages(np.array([there.data_ptr()], np.uint64), 1, HUGE_PAGE_BYTES)
        widths = np.array([layout.planes], np.uint8)
        return BlockTable(layout, pages, np.zeros((1, 1), np.int32), widths, {"buffer": there})

    def vector(self, values: F32) -> F32:
        """See `Home.vector`: a tensor, which the operations of a card take in place of an array."""
        there = self._memory.empty(values.shape, torch.float32)
        there.copy_(torch.from_numpy(values))
        return cast(F32, there)
