"""The operations of a card as a whole: scratch, faults, what the host sends and fetches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable, KernelError, KvLayout, Pages, WorkspaceShape
from ebbtide.kernels.triton.ops import CardOps, workspace_bytes
from tests.helpers.plane_blocks import dense_table, scattered_table
from tests.helpers.triton_linear import products

SHAPE = WorkspaceShape(
    max_rows=4,
    max_cols=64,
    max_out_rows=64,
    experts=3,
    top_k=2,
    d_ff=32,
    max_context=640,
    heads=2,
    head_dim=16,
)
NO_PAGES = Pages(np.zeros(1, np.uint64), 1, 4096)


class Late:
    """A queue that does nothing before somebody waits."""

    def __init__(self) -> None:
        self.deeds: list[Callable[[], object]] = []

    def add(self, deed: Callable[[], object]) -> None:
        self.deeds.append(deed)

    def wait(self) -> None:
        while self.deeds:
            self.deeds.pop(0)()


class Memory:
    """Counts; what it gives is full of NaN."""

    def __init__(self) -> None:
        self.bytes = 0

    def empty(self, shape: tuple[int, ...], kind: torch.dtype) -> torch.Tensor:
        self.bytes += int(np.prod(shape)) * kind.itemsize
        return torch.full(shape, torch.nan if kind.is_floating_point else -1).to(kind)


def made() -> tuple[CardOps, Memory]:
    memory = Memory()
    return CardOps(SHAPE, memory.empty, Late()), memory


def test_scratch_is_what_was_said() -> None:
    _, memory = made()
    assert memory.bytes == workspace_bytes(SHAPE) + SHAPE.experts + 4


def test_what_is_sent_may_change_at_once() -> None:
    ops, _ = made()
    there, here = torch.zeros(3), np.ones(3, np.float32)
    ops.put(there, here)
    here[:] = 7
    assert (there == 0).all() and ops.fetch(there).tolist() == [1, 1, 1]
    fetched = ops.fetch(there)
    ops.put(there, here)
    ops.fetch(there)
    assert fetched.tolist() == [1, 1, 1]


def test_a_product_is_that_of_the_kernel() -> None:
    layout = block_layout([MatrixShape(24, 64, FORMATS["Q4_0"])], page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(0), 4)
    ops, _ = made()
    x, out = torch.randn(2, 64), torch.full((2, 24), torch.nan)
    ops.linear(x, table, out)
    assert out.isnan().all()
    assert (ops.fetch(out) == products(x, table).numpy()).all()
    with pytest.raises(KernelError, match="out of range"):
        ops.linear(x, table, out, index=1)


def experts_of(
    ops: CardOps, chosen: list[int], pair: tuple[BlockTable, BlockTable], idx: torch.Tensor
) -> np.ndarray[Any, Any]:
    out = torch.full((*idx.shape, 32), 7.0)
    ops.moe(torch.ones(len(idx), 32), idx, np.array(chosen, np.uint8), *pair, out, "silu")
    return ops.fetch(out)


def test_experts_come_in_groups_and_an_absent_one_is_a_fault() -> None:
    rng = np.random.default_rng(1)
    gate_up = block_layout([MatrixShape(32, 32, FORMATS["Q4_0"])] * 2, page_bytes=4096, floor_planes=2)
    down = block_layout([MatrixShape(32, 32, FORMATS["Q5_0"])], page_bytes=4096, floor_planes=2)
    pair = scattered_table(gate_up, rng, [4, 4, 4]), scattered_table(down, rng, [5, 5, 5])
    ops, _ = made()
    idx = torch.tensor([[0, 2]], dtype=torch.int32)
    both = experts_of(ops, [1, 1, 1], pair, idx)
    first, second = (experts_of(ops, chosen, pair, idx) for chosen in ([1, 1, 0], [0, 0, 1]))
    assert (first[0, 0] == both[0, 0]).all() and (first[0, 1] == 7).all()
    assert (second[0, 1] == both[0, 1]).all() and (second[0, 0] == 7).all()
    ops.check()
    pair[1].page_table[2] = -1
    assert (experts_of(ops, [0, 0, 1], pair, idx) == 7).all()
    with pytest.raises(KernelError, match="not in fast memory"):
        ops.check()
    ops.check()


def test_rows_with_a_long_context_take_turns() -> None:
    kv, blocks = KvLayout(1, 16, 32), 20
    room = torch.randn(blocks, 2 * 16 * 32).to(torch.bfloat16)
    addresses = torch.tensor([page.data_ptr() for page in room], dtype=torch.int64)
    q, positions = torch.randn(3, 2, 16), torch.tensor([639, 17, 300], dtype=torch.int32)
    ops, _ = made()
    alone = [torch.empty(1, 32) for _ in range(3)]
    for m in range(3):
        one = slice(m, m + 1)
        ops.attention(q[one], positions[one], addresses, kv, NO_PAGES, 0.25, alone[m])
    together = torch.full((3, 32), torch.nan)
    ops.attention(q, positions, addresses, kv, NO_PAGES, 0.25, together)
    assert (ops.fetch(together) == torch.cat(alone).numpy()).all()
    ops.check()
