"""Activations of a pass: buffers for the largest one, and views of as many rows as a pass has."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.spec import ModelSpec

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
Zeros = Callable[[tuple[int, ...], Any], Any]
"""(shape, numpy type) -> zeros: a numpy array, or what stands for one on a card."""


class Rows:
    """The activations of M tokens; all f32 unless said. Made once for the largest pass, see `first`."""

    def __init__(self, spec: ModelSpec, rows: int, zeros: Zeros = np.zeros) -> None:
        heads = spec.heads + 2 * spec.kv_heads
        normed = 0 if spec.qk_norm == "none" else spec.heads
        glu = max(spec.d_ff if spec.dense_ffn else 0, spec.shared_d_ff)
        self.x: F32 = zeros((rows, spec.d_model), np.float32)
        self.normed: F32 = zeros((rows, spec.d_model), np.float32)
        self.qkv: F32 = zeros((rows, heads, spec.head_dim), np.float32)
        self.head_rows: F32 = zeros((rows, normed, spec.head_dim), np.float32)
        self.attended: F32 = zeros((rows, spec.heads * spec.head_dim), np.float32)
        self.gate_up: F32 = zeros((rows, 2 * glu), np.float32)
        self.glu: F32 = zeros((rows, glu), np.float32)
        self.shared: F32 = zeros((rows, 1, spec.d_model if spec.shared_d_ff else 0), np.float32)
        self.shared_gate: F32 = zeros((rows, 1), np.float32)
        self.shared_gate[:] = 1
        self.pairs: F32 = zeros((rows, spec.top_k, spec.d_model), np.float32)
        self.chosen: I32 = zeros((rows, max(spec.top_k, 1)), np.int32)
        self.gates: F32 = zeros((rows, max(spec.top_k, 1)), np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers: counted as transient."""
        return sum(value.nbytes for value in vars(self).values())

    def first(self, rows: int) -> "Rows":
        """Views of the first `rows` rows."""
        return self._part(slice(rows))

    def routing_into(self, chosen: I32, gates: F32) -> "Rows":
        """The same buffers, but for what the router gives: i32, f32[rows, k]."""
        other = self._part(slice(None))
        other.chosen, other.gates = chosen, gates
        return other

    def last(self, rows: int) -> "Rows":
        """Views of the last `rows` rows."""
        return self._part(slice(len(self.x) - rows, None))

    def _part(self, rows: slice) -> "Rows":
        part = object.__new__(Rows)
        part.__dict__.update({name: buffer[rows] for name, buffer in vars(self).items()})
        return part
