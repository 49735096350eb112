"""The operations a forward pass is made of: one protocol, several implementations (`kernels/dispatch.py`).

Buffers are C-contiguous numpy arrays unless a row stride is allowed by name. Every operation gives a row
the same bits whatever its neighbours, the number of rows and of threads. One call at a time per object.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.layout import BlockLayout

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
Activation = Literal["silu", "gelu"]

HUGE_PAGE_BYTES = 1 << 62
"""`page_bytes` of memory that is one contiguous piece."""


class KernelError(RuntimeError):
    """A kernel refused its input: an absent expert, an index out of range, a workspace too small."""


@dataclass(frozen=True, eq=False)
class Pages:
    """Fast memory: page p lies at `slab_bases[p // pages_per_slab] + (p % pages_per_slab) * page_bytes`."""

    slab_bases: U64
    pages_per_slab: int
    page_bytes: int


@dataclass(frozen=True, eq=False)
class BlockTable:
    """E blocks of one layout in fast memory (E = 1 for a dense matrix).

    `page_table` and `widths` are live: their owner edits them in place between two calls.
    """

    layout: BlockLayout
    pages: Pages
    page_table: I32
    """[E, layout.page_count]: page of the block's own address space -> page id, -1 = absent."""
    widths: U8
    """[E]: planes in use, 0 = absent. All planes (a full block) is `layout.planes`."""
    native: dict[str, object] = field(default_factory=dict, repr=False)
    """What an implementation of `Ops` keeps about this table between calls."""

    @property
    def blocks(self) -> int:
        return int(self.page_table.shape[0])


def contiguous_table(layout: BlockLayout, buffer: U8) -> BlockTable:
    """Dense weights: one block at full width that lies in one piece at the start of `buffer`."""
    pages = Pages(np.array([buffer.ctypes.data], np.uint64), 1, HUGE_PAGE_BYTES)
    table = np.zeros((1, 1), np.int32)
    return BlockTable(layout, pages, table, np.array([layout.planes], np.uint8), {"buffer": buffer})


@dataclass(frozen=True)
class KvLayout:
    """One KV page: T tokens of one layer, K part then V part.

    bf16: K u16 [heads][head_dim][T], V u16 [heads][T][head_dim]. fp8: the same with one byte and T doubled.
    """

    heads: int
    head_dim: int
    tokens: int
    format: Literal["bf16", "fp8"] = "bf16"


@dataclass(frozen=True)
class WorkspaceShape:
    """The largest sizes that calls will have; the workspace is sized for them."""

    max_rows: int
    """Rows of x in one call."""
    max_cols: int
    """K of any matrix."""
    max_out_rows: int
    """N of any block (fused views together)."""
    experts: int
    top_k: int
    d_ff: int
    """Columns of `down` of an expert."""
    max_context: int
    heads: int
    head_dim: int


class Operations(Protocol):
    """What the forward pass calls. Each docstring names the shapes; outputs are written, not returned."""

    def linear(
        self,
        x: F32,
        w: BlockTable,
        out: F32,
        *,
        index: int = 0,
        bias: F32 | None = None,
        accumulate: bool = False,
    ) -> None:
        """out[M, N] (+)= x[M, K] W^T (+ bias[N]); W is block `index`, N its rows, views concatenated."""

    def moe(
        self,
        x: F32,
        idx: I32,
        chosen: U8,
        gate_up: BlockTable,
        down: BlockTable,
        out: F32,
        activation: Activation,
    ) -> None:
        """out[m, j] = down_e(act(gate_e(x[m])) * up_e(x[m])), e = idx[m, j], where chosen[e] is not 0.

        x[M, D], idx[M, k], chosen[E], out[M, k, D]; entries of other experts are left as they are.
        """

    def combine(self, pair: F32, weights: F32, out: F32) -> None:
        """out[M, D] += sum over j of weights[M, k] * pair[M, k, D], in order of j."""

    def glu(self, gate_up: F32, out: F32, activation: Activation) -> None:
        """out[M, F] = act(gate_up[M, :F]) * gate_up[M, F:]."""

    def embed(self, w: BlockTable, ids: I32, out: F32) -> None:
        """out[M, D] = rows `ids` of a one-view block, at the block's width."""

    def rmsnorm(self, x: F32, weight: F32, eps: float, out: F32) -> None:
        """out[M, D] = x / rms(x) * weight[D]; out may be x."""

    def rope(self, x: F32, cos: F32, sin: F32, positions: I32, interleaved: bool) -> None:
        """Rotate x[M, H, d] in place (row stride may exceed H*d); cos, sin [P, r/2]; positions[M]."""

    def kv_write(self, k: F32, v: F32, positions: I32, block_table: I32, kv: KvLayout, pages: Pages) -> None:
        """Store k, v [M, Hkv, d] at `positions`; rows may be further apart; block_table[B]: pages."""

    def attention(
        self,
        q: F32,
        positions: I32,
        block_table: I32,
        kv: KvLayout,
        pages: Pages,
        scale: float,
        out: F32,
    ) -> None:
        """out[M, H*d]: causal attention of q[M, H, d] (row stride may exceed); row m sees 0..positions[m]."""

    def router(self, x: F32, w: F32, top_k: int, normalise: bool, idx: I32, weights: F32) -> None:
        """softmax(x[M, D] w[E, D]^T), largest k (ties: lower index first) into idx, weights [M, k]."""


class Program(Protocol):
    """Recorded operations."""

    def run(self) -> None:
        """Do all, in order, on what the arrays hold now. After a KernelError the rest is not done."""


class Recorder(Operations, Protocol):
    """Writes operations down instead of doing them.

    Arrays are taken by address: each has to live as long as the program, though a view of it may go. Their
    contents (positions, block tables, chosen experts) may differ at every run; shapes and scalars may not.
    """

    def program(self) -> Program:
        """What was recorded since the last call."""


class Ops(Operations, Protocol):
    """The operations, done at once."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def recorder(self) -> Recorder:
        """Start to record operations that are run many times with the same arrays (decoding)."""

    def workspace_bytes(self, shape: WorkspaceShape) -> int:
        """Bytes of scratch that any call within `shape` needs."""

    def set_workspace(self, buffer: U8) -> None:
        """Lend `buffer` (kept alive by this object) as the only scratch of all later calls."""
