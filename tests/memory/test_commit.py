"""Committing a vector of widths: whole, or not at all."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.memory.fast_memory import FastMemory
from ebbtide.engine.memory.tables import WeightPageTable
from tests.helpers.memory_fakes import EXPERTS, LAYERS
from tests.memory.test_fast_memory import build


def table_of(memory: FastMemory) -> WeightPageTable:
    assert memory.table is not None and memory.pager is not None
    memory.pager.warm()
    return memory.table


def mixed(table: WeightPageTable) -> NDArray[np.uint8]:
    """Widths from 1 to all planes that differ from block to block."""
    return np.random.default_rng(3).integers(1, table.committed + 1, dtype=np.uint8)


def test_what_is_committed_is_what_kernels_read() -> None:
    table = table_of(memory := build(100))
    full, widths = table.committed.copy(), mixed(table)
    assert widths.shape == (LAYERS, 2, EXPERTS) and (widths != full).any()
    table.commit(widths)
    for layer, pair in enumerate(table.blocks):
        for kind, block in enumerate(pair):
            assert (block.widths == widths[layer, kind]).all()
    assert table.epoch == 1 and not table.is_exact and not memory.is_exact
    memory.check_integrity()
    table.commit(full)
    assert table.epoch == 2 and table.is_exact
    memory.check_integrity()
    memory.close()


def test_what_cannot_be_committed_changes_nothing() -> None:
    table = table_of(memory := build(100))
    before = table.snapshot()
    zero, more, wide = mixed(table), mixed(table), mixed(table)
    zero[1, 0, 2] = 0
    more[0, 1, 0] = before.committed[0, 1, 0] + 1
    wrongs: list[Any] = [zero, more, wide[:, :, :-1], wide.astype(np.int32)]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="width"):
            table.commit(wrong)
    after = table.snapshot()
    assert after.epoch == before.epoch and (after.committed == before.committed).all() and table.is_exact
    memory.close()


def test_a_resident_block_must_have_the_planes() -> None:
    table = table_of(memory := build(100))
    full = table.committed.copy()
    table.commit(mixed(table))
    table.available[1, 1, 2] = full[1, 1, 2] - 1
    committed, epoch = table.committed.copy(), table.epoch
    with pytest.raises(ValueError, match="planes"):
        table.commit(full)
    assert (table.committed == committed).all() and table.epoch == epoch
    memory.close()
