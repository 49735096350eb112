"""The operations on a card: torch tensors in its memory, Triton's kernels, one queue.

The shapes are those of `Operations`. Nothing here computes anything: each method adds kernels to the queue.
Tables, masks and positions that the host decides are sent along in the same queue.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.ops import (
    U8,
    Activation,
    BlockTable,
    KernelError,
    KvLayout,
    Pages,
    WorkspaceShape,
)
from ebbtide.kernels.triton.arrange import arrange, arranged_shape
from ebbtide.kernels.triton.attention import FEW_ROWS, attention, attention_floats
from ebbtide.kernels.triton.combine import combine
from ebbtide.kernels.triton.embed import embed
from ebbtide.kernels.triton.glu import glu, row_gate
from ebbtide.kernels.triton.kv import kv_write
from ebbtide.kernels.triton.kv_tables import KvTable
from ebbtide.kernels.triton.linear import linear
from ebbtide.kernels.triton.mirrors import Empty, Mirror
from ebbtide.kernels.triton.moe import moe
from ebbtide.kernels.triton.rmsnorm import rmsnorm, rmsnorm_heads
from ebbtide.kernels.triton.rope import rope
from ebbtide.kernels.triton.router import router
from ebbtide.kernels.triton.stream import Stream
from ebbtide.kernels.triton.views import HALF_COLS

Tensor = torch.Tensor
_TILE_COLS = 64 * HALF_COLS
_BLOCK = np.zeros(1, np.int64)
"""The only block of a dense matrix."""


def arranged_floats(rows: int, cols: int) -> int:
    """Floats that hold `rows` arranged rows of any width up to `cols`."""
    return rows * -(-cols // _TILE_COLS) * (64 * (HALF_COLS + 1))


def workspace_bytes(shape: WorkspaceShape) -> int:
    """Bytes of scratch that `CardOps` takes for calls within `shape`."""
    return 4 * sum(_scratch_floats(shape))


def _scratch_floats(shape: WorkspaceShape) -> tuple[int, int, int, int]:
    """Arranged rows, arranged hidden values of experts, router's scores, attention's records."""
    rows = shape.max_rows
    hidden = arranged_floats(rows * shape.top_k, shape.d_ff)
    # A few rows with a long context are worked through in turns, if they have to: one must fit.
    one, many = (attention_floats(count, shape.heads, shape.max_context) for count in (1, rows))
    records = max(one, many if rows > FEW_ROWS else 0)
    return arranged_floats(rows, max(shape.max_cols, shape.d_ff)), hidden, rows * shape.experts, records


class CardOps:
    """See `Operations`. `empty` gives memory of the card, which this object keeps as long as it lives."""

    name = "triton"
    threads = 0

    def __init__(self, shape: WorkspaceShape, empty: Empty, stream: Stream) -> None:
        self._empty, self._stream = empty, stream
        sizes = _scratch_floats(shape)
        self._arranged, self._hidden, self._scores, self._records = (
            empty((size,), torch.float32) for size in sizes
        )
        self._chosen = empty((shape.experts,), torch.uint8)
        self._chosen_now: U8 | None = None
        self._fault = empty((1,), torch.int32)
        self.put(self._fault, np.zeros(1, np.int32))

    def adopt(self, table: BlockTable) -> None:
        """Make room for a table now, so that no call has to."""
        self._mirror(table)

    # --- between host and card

    def put(self, target: Tensor, values: NDArray[Any]) -> None:
        """Add a copy of host values to the queue; they may change as soon as this returns."""
        source = torch.from_numpy(values.copy())
        self._stream.add(lambda: target.copy_(source, non_blocking=True))

    def fetch(self, source: Tensor) -> NDArray[Any]:
        """A copy on the host, once all that was added so far is done."""
        self._stream.wait()
        found: NDArray[Any] = source.cpu().numpy().copy()
        return found

    def check(self) -> None:
        """Raise KernelError if a kernel refused its input since the last check. Waits for the queue."""
        if self.fetch(self._fault)[0]:
            self.put(self._fault, np.zeros(1, np.int32))
            raise KernelError("a block is not in fast memory, or an index is out of range")

    # --- plane matrices

    def linear(
        self,
        x: Tensor,
        w: BlockTable,
        out: Tensor,
        *,
        index: int = 0,
        bias: Tensor | None = None,
        accumulate: bool = False,
    ) -> None:
        """See `Operations.linear`; rows of x and out may be apart."""
        if not 0 <= index < w.blocks:
            raise KernelError("an index is out of range")
        block = _BLOCK if index == 0 else np.array([index])
        mirror = self._mirror(w)
        mirror.refresh(block, self.put)
        width, arranged = mirror.width_of(block), self._arrange(x)

        def launch() -> None:
            linear(
                arranged,
                mirror.table,
                out,
                self._fault,
                index=index,
                bias=bias,
                accumulate=accumulate,
                width=width,
            )

        self._stream.add(launch)

    def moe(
        self,
        x: Tensor,
        idx: Tensor,
        chosen: U8,
        gate_up: BlockTable,
        down: BlockTable,
        out: Tensor,
        activation: Activation,
    ) -> None:
        """See `Operations.moe`; `chosen` is the host's."""
        blocks = np.flatnonzero(chosen)
        first, second = self._mirror(gate_up), self._mirror(down)
        for mirror in (first, second):
            mirror.refresh(blocks, self.put)
        width = min(first.width_of(blocks), second.width_of(blocks))
        flags = self._choose(chosen)
        arranged = self._arrange(x)
        shape = arranged_shape(idx.numel(), down.layout.cols)
        hidden = self._hidden[: _count(shape)].view(shape)

        def launch() -> None:
            tables = first.table, second.table
            moe(arranged, idx, flags, *tables, hidden, out, self._fault, activation, width=width)

        self._stream.add(launch)

    def embed(self, w: BlockTable, ids: Tensor, out: Tensor) -> None:
        """See `Operations.embed`."""
        mirror = self._mirror(w)
        mirror.refresh(_BLOCK, self.put)
        self._stream.add(lambda: embed(mirror.table, ids, out, self._fault))

    def _mirror(self, table: BlockTable) -> Mirror:
        known = table.native.get("card")
        if known is None:
            known = table.native["card"] = Mirror(table, self._empty)
        assert isinstance(known, Mirror)
        return known

    def _arrange(self, x: Tensor) -> Tensor:
        shape = arranged_shape(*x.shape)
        arranged = self._arranged[: _count(shape)].view(shape)
        self._stream.add(lambda: arrange(x, arranged))
        return arranged

    def _choose(self, chosen: U8) -> Tensor:
        """The mask on the card; most calls have the same as the one before, or their layer's."""
        flags = self._chosen[: len(chosen)]
        if self._chosen_now is None or not np.array_equal(self._chosen_now, chosen):
            self._chosen_now = chosen.copy()
            self.put(flags, self._chosen_now)
        return flags

    # --- rows

    def combine(self, pair: Tensor, weights: Tensor, out: Tensor) -> None:
        """See `Operations.combine`."""
        self._stream.add(lambda: combine(pair, weights, out))

    def glu(self, gate_up: Tensor, out: Tensor, activation: Activation) -> None:
        """See `Operations.glu`."""
        self._stream.add(lambda: glu(gate_up, out, activation))

    def row_gate(self, x: Tensor, weight: Tensor, out: Tensor) -> None:
        """out[M, 1] = the logistic function of the sum of x[M, D] * weight[D]."""
        self._stream.add(lambda: row_gate(x, weight, out[:, 0]))

    def rmsnorm(self, x: Tensor, weight: Tensor, eps: float, out: Tensor) -> None:
        """See `Operations.rmsnorm`; rows may be apart."""
        self._stream.add(lambda: rmsnorm(x, weight, eps, out))

    def rmsnorm_heads(self, x: Tensor, weight: Tensor, eps: float) -> None:
        """Norm every head of x[M, H, d] in place; rows may be apart."""
        self._stream.add(lambda: rmsnorm_heads(x, weight, eps, x))

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, interleaved: bool) -> None:
        """See `Operations.rope`."""
        self._stream.add(lambda: rope(x, cos, sin, positions, interleaved, self._fault))

    def kv_write(
        self, k: Tensor, v: Tensor, positions: Tensor, block_table: Tensor, kv: KvLayout, pages: Pages
    ) -> None:
        """See `Operations.kv_write`; `block_table` i64 [B] has addresses (`kv_tables.py`)."""
        self._stream.add(lambda: kv_write(k, v, positions, KvTable(block_table), kv, self._fault))

    def attention(
        self,
        q: Tensor,
        positions: Tensor,
        block_table: Tensor,
        kv: KvLayout,
        pages: Pages,
        scale: float,
        out: Tensor,
    ) -> None:
        """See `Operations.attention`; `block_table` i64 [B] has addresses (`kv_tables.py`), all of those that
        a row sees and no more.
        """
        rows, heads, _ = q.shape
        context = block_table.shape[-1] * kv.tokens
        turn = rows
        if rows <= FEW_ROWS:
            turn = max(1, self._records.numel() // attention_floats(1, heads, context))
        work, table = self._records, KvTable(block_table)

        def launch(part: slice) -> None:
            given = q[part], positions[part], table, kv, scale, work, out[part], self._fault
            attention(*given, context=context)

        for start in range(0, rows, turn):
            self._stream.add(partial(launch, slice(start, start + turn)))

    def router(self, x: Tensor, w: Tensor, top_k: int, normalise: bool, idx: Tensor, weights: Tensor) -> None:
        """See `Operations.router`."""
        shape = len(x), len(w)
        scores = self._scores[: _count(shape)].view(shape)
        self._stream.add(lambda: router(x, w, top_k, normalise, scores, idx, weights))


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))
