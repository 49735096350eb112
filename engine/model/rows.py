"""Activations of a pass: buffers for the largest one, and views of as many rows as a pass has."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.spec import ModelSpec

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


class Rows:
    """The activations of M tokens; all f32 unless said. Made once for the largest pass, see `first`."""

    def __init__(self, spec: ModelSpec, rows: int) -> None:
        heads = spec.heads + 2 * spec.kv_heads
        glu = max(spec.d_ff if spec.dense_ffn else 0, spec.shared_d_ff)
        self.x = np.zeros((rows, spec.d_model), np.float32)
        self.normed = np.zeros((rows, spec.d_model), np.float32)
        self.qkv = np.zeros((rows, heads, spec.head_dim), np.float32)
        self.head_rows = np.zeros((rows, spec.heads if spec.qk_norm else 0, spec.head_dim), np.float32)
        self.attended = np.zeros((rows, spec.heads * spec.head_dim), np.float32)
        self.gate_up = np.zeros((rows, 2 * glu), np.float32)
        self.glu = np.zeros((rows, glu), np.float32)
        self.shared = np.zeros((rows, 1, spec.d_model if spec.shared_d_ff else 0), np.float32)
        self.shared_gate = np.ones((rows, 1), np.float32)
        self.pairs = np.zeros((rows, spec.top_k, spec.d_model), np.float32)
        self.chosen: I32 = np.zeros((rows, max(spec.top_k, 1)), np.int32)
        self.gates = np.zeros((rows, max(spec.top_k, 1)), np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers: counted as transient."""
        return sum(value.nbytes for value in vars(self).values())

    def first(self, rows: int) -> "Rows":
        """Views of the first `rows` rows."""
        part = object.__new__(Rows)
        part.__dict__.update({name: buffer[:rows] for name, buffer in vars(self).items()})
        return part
