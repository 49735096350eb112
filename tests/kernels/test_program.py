"""Recorded operations do what the same calls do, on whatever the arrays hold when they run."""

import numpy as np
import pytest

from ebbtide.kernels.dispatch import IsaChoice, pick
from ebbtide.kernels.layout import FORMATS, BlockLayout, MatrixShape, block_layout
from ebbtide.kernels.ops import F32, I32, U8, KernelError, KvLayout, Operations, Pages, WorkspaceShape
from tests.helpers.attention_kernels import isas
from tests.helpers.plane_blocks import scattered_table

D, HEADS, HEAD_DIM, F, EXPERTS, TOP_K = 64, 2, 32, 96, 4, 2
KV = KvLayout(1, HEAD_DIM, 8)


def layout(rows: list[int], cols: int) -> BlockLayout:
    shapes = [MatrixShape(n, cols, FORMATS["Q8_0"]) for n in rows]
    return block_layout(shapes, page_bytes=4096, floor_planes=2)


class TinyLayer:
    """A layer's arrays, and its operations in order."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.qkv = scattered_table(layout([D, KV.head_dim, KV.head_dim], D), rng, [8])
        self.gate_up = scattered_table(layout([F, F], D), rng, [8] * EXPERTS)
        self.down = scattered_table(layout([D], F), rng, [8] * EXPERTS)
        self.table = scattered_table(layout([100], D), rng, [8])
        self.norm = rng.standard_normal(D).astype(np.float32)
        self.router = rng.standard_normal((EXPERTS, D)).astype(np.float32)
        angles = rng.uniform(0, 6, (32, HEAD_DIM // 2))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.memory = np.zeros((4, 2 * KV.heads * KV.head_dim * KV.tokens * 2), np.uint8)
        self.pages = Pages(np.array([self.memory.ctypes.data], np.uint64), 4, self.memory.shape[1])
        self.ids: I32 = np.zeros(1, np.int32)
        self.position: I32 = np.zeros(1, np.int32)
        self.blocks: I32 = np.array([2, 0, 3, 1], np.int32)
        self.chosen: U8 = np.ones(EXPERTS, np.uint8)
        self.x, self.normed, self.attended = (np.zeros((1, D), np.float32) for _ in range(3))
        self.heads = np.zeros((1, HEADS + 2, HEAD_DIM), np.float32)
        self.idx: I32 = np.zeros((1, TOP_K), np.int32)
        self.weights: F32 = np.zeros((1, TOP_K), np.float32)
        self.pair: F32 = np.zeros((1, TOP_K, D), np.float32)
        self.gated: F32 = np.zeros((1, D // 2), np.float32)

    def apply(self, ops: Operations) -> None:
        """Every operation once."""
        ops.embed(self.table, self.ids, self.x)
        ops.rmsnorm(self.x, self.norm, 1e-5, self.normed)
        ops.linear(self.normed, self.qkv, self.heads.reshape(1, -1))
        q, k, v = np.split(self.heads, (HEADS, HEADS + 1), axis=1)
        ops.rope(q, self.cos, self.sin, self.position, False)
        ops.kv_write(k, v, self.position, self.blocks, KV, self.pages)
        ops.attention(q, self.position, self.blocks, KV, self.pages, 0.25, self.attended)
        ops.router(self.attended, self.router, TOP_K, True, self.idx, self.weights)
        ops.moe(self.normed, self.idx, self.chosen, self.gate_up, self.down, self.pair, "silu")
        ops.combine(self.pair, self.weights, self.x)
        ops.glu(self.x, self.gated, "gelu")

    def results(self) -> bytes:
        arrays = (self.x, self.attended, self.heads, self.pair, self.gated, self.idx, self.memory)
        return b"".join(array.tobytes() for array in arrays)


@pytest.mark.parametrize("isa", [*isas(), "reference"])
def test_a_program_is_its_calls(isa: IsaChoice) -> None:
    direct, recorded = TinyLayer(np.random.default_rng(1)), TinyLayer(np.random.default_rng(1))
    ops = pick(isa, 2)
    shape = WorkspaceShape(1, F, 2 * F, EXPERTS, TOP_K, F, 32, HEADS, HEAD_DIM)
    ops.set_workspace(np.zeros(ops.workspace_bytes(shape), np.uint8))
    recorder = ops.recorder()
    recorded.apply(recorder)
    before = recorded.results()
    program = recorder.program()
    recorder.program().run()  # nothing was recorded since
    assert recorded.results() == before
    for token, position in ((5, 0), (99, 1), (0, 2)):
        for layer in (direct, recorded):
            layer.ids[0], layer.position[0] = token, position
        direct.apply(ops)
        program.run()
        assert recorded.results() == direct.results()


@pytest.mark.parametrize("isa", [*isas(), "reference"])
def test_a_failing_operation_ends_the_program(isa: IsaChoice) -> None:
    layer = TinyLayer(np.random.default_rng(2))
    ops = pick(isa, 1)
    ops.set_workspace(np.zeros(1 << 20, np.uint8))
    recorder = ops.recorder()
    layer.apply(recorder)
    program = recorder.program()
    layer.gate_up.widths[:] = 0
    with pytest.raises(KernelError, match="not in fast memory"):
        program.run()
    assert layer.attended.any() and not layer.gated.any()
