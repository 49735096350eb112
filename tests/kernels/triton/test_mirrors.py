"""Block tables on a card: sent when something changed, and only then."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable
from ebbtide.kernels.triton.mirrors import Mirror, mirror_bytes
from ebbtide.kernels.triton.planes import MIXED
from ebbtide.kernels.triton.tables import device_table
from tests.helpers.plane_blocks import dense_table, scattered_table

ALL = np.arange(4)


def paged(widths: list[int]) -> BlockTable:
    layout = block_layout([MatrixShape(17, 512, FORMATS["Q8_0"])], page_bytes=4096, floor_planes=2)
    return scattered_table(layout, np.random.default_rng(0), widths)


class Sent:
    """A mirror on the host that counts copies."""

    def __init__(self, table: BlockTable) -> None:
        self.copies, self.bytes = 0, 0
        self.mirror = Mirror(table, self._empty)

    def _empty(self, shape: tuple[int, ...], kind: torch.dtype) -> torch.Tensor:
        self.bytes += int(np.prod(shape)) * kind.itemsize
        return torch.full(shape, -1, dtype=kind)

    def put(self, target: torch.Tensor, values: NDArray[Any]) -> None:
        self.copies += 1
        target.copy_(torch.from_numpy(values.copy()))

    def refresh(self, blocks: NDArray[np.integer]) -> int:
        """Copies that it took."""
        before = self.copies
        self.mirror.refresh(blocks, self.put)
        return self.copies - before


def test_it_says_what_a_whole_table_says() -> None:
    table = paged([8, 3, 0, 8])
    sent = Sent(table)
    assert sent.refresh(ALL) == 1 and sent.bytes == mirror_bytes(table.layout, 4)
    whole = device_table(table, "cpu")
    pages = table.layout.page_count
    assert torch.equal(sent.mirror.table.addresses[:, :pages], whole.addresses[:, :pages])
    assert torch.equal(sent.mirror.table.widths, whole.widths)
    assert sent.mirror.table.page_bytes == 4096


def test_only_a_change_of_the_blocks_in_question_is_sent() -> None:
    table = paged([8, 8, 8, 8])
    sent = Sent(table)
    assert [sent.refresh(ALL), sent.refresh(ALL), sent.refresh(ALL[:0])] == [1, 0, 0]
    table.page_table[3] = -1
    assert sent.refresh(ALL[:3]) == 0 and sent.mirror.table.widths[3] == 8
    assert sent.refresh(ALL) == 1 and sent.mirror.table.widths[3] == 0
    table.widths[1] = 2
    assert sent.refresh(ALL[1:2]) == 1 and sent.mirror.table.widths[1] == 2


def test_a_slab_that_came_back_elsewhere_is_noticed() -> None:
    table = paged([8, 8, 8, 8])
    sent = Sent(table)
    sent.refresh(ALL)
    before = sent.mirror.table.addresses.clone()
    table.pages.slab_bases[:] += np.uint64(1 << 20)
    assert sent.refresh(ALL) == 1
    pages = table.layout.page_count
    assert torch.equal(sent.mirror.table.addresses[:, :pages], before[:, :pages] + (1 << 20))


def test_one_piece_is_sent_once() -> None:
    layout = block_layout([MatrixShape(17, 64, FORMATS["Q4_0"])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(0), 4)
    sent = Sent(table)
    one = np.zeros(1, np.int64)
    assert [sent.refresh(one), sent.refresh(one)] == [1, 0]
    assert sent.mirror.table.addresses[0, 0] == int(table.pages.slab_bases[0])
    assert sent.mirror.table.page_bytes == 0


@pytest.mark.parametrize(("blocks", "promise"), [([0, 3], 8), ([0, 1], MIXED.value), ([2], MIXED.value)])
def test_full_blocks_may_be_promised(blocks: list[int], promise: int) -> None:
    sent = Sent(paged([8, 3, 0, 8]))
    sent.refresh(ALL)
    assert sent.mirror.width_of(np.array(blocks)) == promise
