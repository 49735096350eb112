"""One pass of tokens through the model: what every family shares, in the order of the layers.

A row's result depends on its own token, position and keys only (DESIGN: same bits whatever shares its batch),
so the same method serves the prefill of a chunk and the decoding of one token.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.model.rope import rope_tables
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import DenseWeights, LayerWeights
from ebbtide.kernels.ops import KvLayout, Ops, Pages

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


class Cancelled(Exception):
    """The request was cancelled between two layers; keys written by this pass are not valid."""


@dataclass(frozen=True)
class KvView:
    """Where one sequence's keys and values lie: page ids i32[layers, blocks], and the pages themselves."""

    table: I32
    layout: KvLayout
    pages: Pages


class Buffers:
    """Activations of one pass, allocated once; all f32 unless said. Counted as transient."""

    def __init__(self, spec: ModelSpec, rows: int) -> None:
        heads = spec.heads + 2 * spec.kv_heads
        glu = max(spec.d_ff if spec.dense_ffn else 0, spec.shared_d_ff)
        self.x = np.zeros((rows, spec.d_model), np.float32)
        self.normed = np.zeros((rows, spec.d_model), np.float32)
        self.qkv = np.zeros((rows, heads, spec.head_dim), np.float32)
        self.head_rows = np.zeros((rows * spec.heads if spec.qk_norm else 0, spec.head_dim), np.float32)
        self.attended = np.zeros((rows, spec.heads * spec.head_dim), np.float32)
        self.gate_up = np.zeros((rows, 2 * glu), np.float32)
        self.glu = np.zeros((rows, glu), np.float32)
        self.shared = np.zeros((rows, spec.d_model if spec.shared_d_ff else 0), np.float32)
        self.pairs = np.zeros((rows, spec.top_k, spec.d_model), np.float32)
        self.chosen = np.zeros((rows, max(spec.top_k, 1)), np.int32)
        self.gates = np.zeros((rows, max(spec.top_k, 1)), np.float32)

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in vars(self).values())


class Forward:
    """A loaded model, ready to run up to `rows` tokens a pass."""

    def __init__(
        self, spec: ModelSpec, ops: Ops, weights: DenseWeights, pager: Pager | None, rows: int, context: int
    ) -> None:
        self.spec, self.ops, self.weights, self.pager = spec, ops, weights, pager
        self.rows = rows
        self.buffers = Buffers(spec, rows)
        self.cos, self.sin = rope_tables(spec, weights.rope_factors, context)

    def hidden(self, ids: I32, start: int, kv: KvView, cancelled: Callable[[], bool]) -> F32:
        """Run `ids` i32[M] at positions start .. start + M - 1; returns the final normed rows f32[M, D] (a
        view).

        Keys and values are written to the pages of `kv`. Raises Cancelled between layers.
        """
        m = ids.size
        positions = np.arange(start, start + m, dtype=np.int32)
        x = self.buffers.x[:m]
        self.ops.embed(self.weights.embedding, ids, x)
        for index, layer in enumerate(self.weights.layers):
            if cancelled():
                raise Cancelled
            self._attention(layer, x, positions, kv, kv.table[index])
            self._feed_forward(index, layer, x)
        normed = self.buffers.normed[:m]
        self.ops.rmsnorm(x, self.weights.final_norm, self.spec.norm_eps, normed)
        return normed

    def logits(self, rows: F32, out: F32) -> None:
        """Scores of the next token, f32[M, vocabulary], of the rows f32[M, D] that `hidden` gave."""
        self.ops.linear(rows, self.weights.head, out)

    def _attention(self, layer: LayerWeights, x: F32, positions: I32, kv: KvView, blocks: I32) -> None:
        spec, ops, m = self.spec, self.ops, x.shape[0]
        normed, qkv, attended = self.buffers.normed[:m], self.buffers.qkv[:m], self.buffers.attended[:m]
        ops.rmsnorm(x, layer.attn_norm, spec.norm_eps, normed)
        ops.linear(normed, layer.qkv, qkv.reshape(m, -1), bias=layer.qkv_bias)
        keys = spec.heads + spec.kv_heads
        q, k, v = qkv[:, : spec.heads], qkv[:, spec.heads : keys], qkv[:, keys:]
        for heads, weight in ((q, layer.q_norm), (k, layer.k_norm)):
            if weight is not None:
                self._norm_heads(heads, weight)
        # Queries and keys lie side by side and turn alike: one call.
        ops.rope(qkv[:, :keys], self.cos, self.sin, positions, spec.rope_interleaved)
        ops.kv_write(k, v, positions, blocks, kv.layout, kv.pages)
        ops.attention(q, positions, blocks, kv.layout, kv.pages, spec.head_dim**-0.5, attended)
        ops.linear(attended, layer.attn_out, x, accumulate=True)

    def _norm_heads(self, heads: F32, weight: F32) -> None:
        """Norm every head of heads[M, H, d] in place; by way of a buffer, since the kernel wants dense
        rows.
        """
        dense = self.buffers.head_rows[: heads.shape[0] * heads.shape[1]]
        dense.reshape(heads.shape)[:] = heads
        self.ops.rmsnorm(dense, weight, self.spec.norm_eps, dense)
        heads[:] = dense.reshape(heads.shape)

    def _feed_forward(self, index: int, layer: LayerWeights, x: F32) -> None:
        normed = self.buffers.normed[: x.shape[0]]
        self.ops.rmsnorm(x, layer.ffn_norm, self.spec.norm_eps, normed)
        if layer.gate_up is not None and layer.down is not None:
            self._dense(layer, normed, x)
        if layer.router is not None:
            self._experts(index, layer.router, normed, x)
        if layer.shared_gate_up is not None:
            self._shared(layer, normed, x)

    def _dense(self, layer: LayerWeights, normed: F32, x: F32) -> None:
        assert layer.gate_up is not None and layer.down is not None
        gate_up, glu = self.buffers.gate_up[: x.shape[0]], self.buffers.glu[: x.shape[0]]
        self.ops.linear(normed, layer.gate_up, gate_up)
        self.ops.glu(gate_up, glu, self.spec.activation)
        self.ops.linear(glu, layer.down, x, accumulate=True)

    def _experts(self, index: int, router: F32, normed: F32, x: F32) -> None:
        assert self.pager is not None
        spec, m = self.spec, x.shape[0]
        chosen, gates, pairs = self.buffers.chosen[:m], self.buffers.gates[:m], self.buffers.pairs[:m]
        self.ops.router(normed, router, spec.top_k, spec.normalise_top_k, chosen, gates)
        gate_up, down = self.pager.gate_up(index), self.pager.down(index)
        for resident in self.pager.groups(index, chosen):
            self.ops.moe(normed, chosen, resident, gate_up, down, pairs, spec.activation)
        self.ops.combine(pairs, gates, x)

    def _shared(self, layer: LayerWeights, normed: F32, x: F32) -> None:
        """The expert every token visits, weighted by its own sigmoid gate (Qwen2-MoE)."""
        assert layer.shared_gate_up is not None and layer.shared_down is not None
        m = x.shape[0]
        shared, gate_up, glu = self.buffers.shared[:m], self.buffers.gate_up[:m], self.buffers.glu[:m]
        self.ops.linear(normed, layer.shared_gate_up, gate_up)
        self.ops.glu(gate_up, glu, self.spec.activation)
        self.ops.linear(glu, layer.shared_down, shared)
        gates = np.ones((m, 1), np.float32)
        if layer.shared_gate is not None:
            # A row-wise sum, not a matrix product: its order must not depend on how many rows there are.
            scores = (normed * layer.shared_gate).sum(axis=1, dtype=np.float64)
            gates[:, 0] = 1.0 / (1.0 + np.exp(-scores))
        self.ops.combine(shared.reshape(m, 1, -1), gates, x)
