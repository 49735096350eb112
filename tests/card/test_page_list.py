"""Page addresses of the running sequence on a card: always right, sent only where something is new."""

import random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from ebbtide.engine.model.card_forward import PageList
from ebbtide.kernels.ops import Pages
from ebbtide.kernels.triton.kv_tables import kv_addresses
from ebbtide.kernels.triton.ops import CardOps

LAYERS, BLOCKS = 3, 8


class Listed:
    """A list whose copies are counted, in columns."""

    def __init__(self) -> None:
        self.columns = 0
        ops = cast(CardOps, SimpleNamespace(put=self._put))
        memory: Any = SimpleNamespace(empty=lambda shape, kind: torch.full(shape, -7, dtype=kind))
        self.list = PageList(ops, memory, LAYERS, BLOCKS)

    def _put(self, target: torch.Tensor, values: np.ndarray[Any, Any]) -> None:
        self.columns += values.shape[1]
        target.copy_(torch.from_numpy(values))

    def sent(self, table: np.ndarray[Any, Any], pages: Pages, blocks: int) -> int:
        """Columns that it took to show the first `blocks` of a table, which are right then."""
        before = self.columns
        shown = self.list.show(table, pages, blocks)
        assert shown.shape == (LAYERS, blocks)
        assert (shown.numpy() == kv_addresses(table[:, :blocks], pages)).all()
        return self.columns - before


def pages_at(base: int) -> Pages:
    return Pages(np.array([base, base + (1 << 30)], np.uint64), 16, 4096)


def table_of(*columns: int) -> np.ndarray[Any, Any]:
    """Page ids of each layer; columns past those given are absent."""
    table = np.full((LAYERS, BLOCKS), -1, np.int32)
    for place, page in enumerate(columns):
        table[:, place] = page + np.arange(LAYERS)
    return table


def test_a_growing_conversation_sends_its_new_pages() -> None:
    listed, pages = Listed(), pages_at(1 << 20)
    assert listed.sent(table_of(3, 9), pages, 2) == 2
    assert listed.sent(table_of(3, 9), pages, 2) == 0
    assert listed.sent(table_of(3, 9, 20), pages, 3) == 1
    assert listed.sent(table_of(3, 9, 20), pages, 3) == 0


def test_another_conversation_sends_from_where_they_part() -> None:
    listed, pages = Listed(), pages_at(1 << 20)
    listed.sent(table_of(3, 9, 20, 24), pages, 4)
    assert listed.sent(table_of(3, 12), pages, 2) == 1
    assert listed.sent(table_of(3, 12, 20, 24), pages, 4) == 2, "what was behind means nothing any more"


def test_slabs_that_moved_send_all() -> None:
    listed = Listed()
    listed.sent(table_of(3, 9), pages_at(1 << 20), 2)
    assert listed.sent(table_of(3, 9), pages_at(1 << 21), 2) == 2


def test_anything_goes() -> None:
    chooser, listed = random.Random(4), Listed()
    pages = pages_at(1 << 20)
    columns: list[int] = []
    for _ in range(300):
        deed = chooser.randrange(5)
        if deed < 2 and len(columns) < BLOCKS:
            columns.append(chooser.randrange(28))
        elif deed == 2:
            columns = columns[: chooser.randrange(len(columns) + 1)]
        elif deed == 3 and columns:
            columns[chooser.randrange(len(columns))] = chooser.randrange(28)
        elif chooser.random() < 0.1:
            pages = pages_at(chooser.randrange(1, 9) << 20)
        if columns:
            listed.sent(table_of(*columns), pages, chooser.randint(1, len(columns)))
