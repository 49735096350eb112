"""A layer, written once: the operations between two decisions that are not the kernels' to take.

Which experts are read in is decided in between, by the pager. The same methods run a chunk at once (`Ops`)
and write down a token's operations (`Recorder`, see token_programs.py).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.rows import F32, I32, Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import LayerWeights
from ebbtide.kernels.ops import BlockTable, KvLayout, Operations, Pages

U8 = NDArray[np.uint8]


@dataclass(frozen=True)
class KvView:
    """Where one sequence's keys and values lie: page ids i32[layers, blocks], and the pages themselves."""

    table: I32
    layout: KvLayout
    pages: Pages


@dataclass(frozen=True)
class LayerPass:
    """M rows at `positions` i32[M] on their way through the layers. cos, sin f32[context, rotated / 2]."""

    spec: ModelSpec
    ops: Operations
    rows: Rows
    positions: I32
    kv: KvView
    cos: F32
    sin: F32

    def last(self, count: int) -> "LayerPass":
        """The same for the last `count` rows alone."""
        first = len(self.rows.x) - count
        return replace(self, rows=self.rows.last(count), positions=self.positions[first:])

    def until_routed(self, index: int, layer: LayerWeights) -> None:
        """Everything up to `rows.chosen` and `rows.gates`; a layer without experts is finished by it."""
        self.write_keys(index, layer)
        self.from_keys_to_routed(index, layer)

    def from_keys_to_routed(self, index: int, layer: LayerWeights) -> None:
        """What `until_routed` does after `write_keys`; these may be some rows of those."""
        spec, ops, rows = self.spec, self.ops, self.rows
        self._attend(index, layer)
        ops.rmsnorm(rows.x, layer.ffn_norm, spec.norm_eps, rows.normed)
        if layer.gate_up is not None and layer.down is not None:
            self._ffn(layer.gate_up, layer.down, rows.x, accumulate=True)
        if layer.shared_gate_up is not None and layer.shared_down is not None:
            self._ffn(layer.shared_gate_up, layer.shared_down, rows.shared[:, 0], accumulate=False)
        if layer.router is not None:
            top = spec.top_k, spec.normalise_top_k
            ops.router(rows.normed, layer.router, *top, rows.chosen, rows.gates)

    def experts(self, gate_up: BlockTable, down: BlockTable, resident: U8) -> None:
        """The chosen experts that are in `resident` u8[E], into `rows.pairs`."""
        rows = self.rows
        self.ops.moe(rows.normed, rows.chosen, resident, gate_up, down, rows.pairs, self.spec.activation)

    def weigh_shared(self, layer: LayerWeights) -> None:
        """The shared expert's own sigmoid gate (Qwen2-MoE), into `rows.shared_gate`; done at once."""
        if layer.shared_gate is None:
            return
        # A row-wise sum, not a matrix product: its order must not depend on how many rows there are.
        scores = (self.rows.normed * layer.shared_gate).sum(axis=1, dtype=np.float64)
        self.rows.shared_gate[:, 0] = 1.0 / (1.0 + np.exp(-scores))

    def add_experts(self, layer: LayerWeights) -> None:
        """Add what the routed experts and the shared one gave."""
        rows = self.rows
        if layer.router is not None:
            self.ops.combine(rows.pairs, rows.gates, rows.x)
        if layer.shared_gate_up is not None:
            self.ops.combine(rows.shared, rows.shared_gate, rows.x)

    def write_keys(self, index: int, layer: LayerWeights) -> None:
        """Queries into `rows.qkv`, keys and values also into their pages."""
        spec, ops, rows, kv = self.spec, self.ops, self.rows, self.kv
        ops.rmsnorm(rows.x, layer.attn_norm, spec.norm_eps, rows.normed)
        ops.linear(rows.normed, layer.qkv, rows.qkv.reshape(len(rows.qkv), -1), bias=layer.qkv_bias)
        keys = spec.heads + spec.kv_heads
        q, k, v = rows.qkv[:, : spec.heads], rows.qkv[:, spec.heads : keys], rows.qkv[:, keys:]
        for heads, weight in ((q, layer.q_norm), (k, layer.k_norm)):
            if weight is not None:
                # A weight for a whole row (OLMoE) norms it as if it were one head.
                self.norm_heads(heads.reshape(len(heads), -1, len(weight)), weight)
        # Queries and keys lie side by side and turn alike: one call.
        ops.rope(rows.qkv[:, :keys], self.cos, self.sin, self.positions, spec.rope_interleaved)
        ops.kv_write(k, v, self.positions, kv.table[index], kv.layout, kv.pages)

    def _attend(self, index: int, layer: LayerWeights) -> None:
        spec, ops, rows, kv = self.spec, self.ops, self.rows, self.kv
        q, blocks = rows.qkv[:, : spec.heads], kv.table[index]
        ops.attention(q, self.positions, blocks, kv.layout, kv.pages, spec.head_dim**-0.5, rows.attended)
        ops.linear(rows.attended, layer.attn_out, rows.x, accumulate=True)

    def norm_heads(self, heads: F32, weight: F32) -> None:
        """Norm every head of heads[M, H, d], a view, by weight[d] in place. The kernel wants dense rows: one
        token's are, those of several go by way of a buffer.
        """
        eps = self.spec.norm_eps
        if len(heads) == 1:
            self.ops.rmsnorm(heads[0], weight, eps, heads[0])
            return
        dense = self.rows.head_rows.reshape(-1, len(weight))[: heads.shape[0] * heads.shape[1]]
        dense.reshape(heads.shape)[:] = heads
        self.ops.rmsnorm(dense, weight, eps, dense)
        heads[:] = dense.reshape(heads.shape)

    def _ffn(self, gate_up: BlockTable, down: BlockTable, out: F32, *, accumulate: bool) -> None:
        rows, ops = self.rows, self.ops
        ops.linear(rows.normed, gate_up, rows.gate_up)
        ops.glu(rows.gate_up, rows.glu, self.spec.activation)
        ops.linear(rows.glu, down, out, accumulate=accumulate)
