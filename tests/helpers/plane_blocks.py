"""Random plane blocks in scattered pages, the compiled operations with guarded scratch, and error bounds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.kernels.cpu.linear_ops import linear_workspace_bytes
from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.layout import BlockLayout, MatrixView, ScaleKind
from ebbtide.kernels.ops import F32, U8, BlockTable, Pages, WorkspaceShape, contiguous_table
from ebbtide.kernels.reference.planes import Weights, load_view

torch.set_num_threads(1)  # the matrices are small: waking a second thread costs more than the product

GUARD = 4096
POISON = 0xFF
"""Bytes of 0xFF are NaN as floats: whatever reads them shows it."""
UNIT = 2.0**-24
_SUPER_BYTES = {ScaleKind.K6: (256, 64), ScaleKind.K8: (288, 32), ScaleKind.S6: (128, 32)}
"""Bytes of a strip's scales per 256 columns, and how many of them are f16."""


def random_block(layout: BlockLayout, rng: np.random.Generator) -> U8:
    """Bytes of one block: uniform codes and sub-scales, f16 scales around 0.01, noisy padding."""
    block: U8 = rng.integers(0, 256, layout.span_bytes, dtype=np.uint8)
    for view in layout.views:
        _fill_scales(block, view, rng)
    return block


def _fill_scales(block: U8, view: MatrixView, rng: np.random.Generator) -> None:
    meta = block[view.meta_offset : view.meta_offset + view.shape.meta_bytes].reshape(view.shape.strips, -1)
    if view.shape.format.kind is ScaleKind.E8:
        meta[...] = rng.integers(118, 124, meta.shape, dtype=np.uint8)
        return
    per_super, halves = _SUPER_BYTES.get(view.shape.format.kind, (meta.shape[1], meta.shape[1]))
    for start in range(0, meta.shape[1], per_super):
        part = meta[:, start : start + halves]
        values = rng.uniform(0.002, 0.02, (part.shape[0], halves // 2)) * rng.choice([-1.0, 1.0])
        part[...] = values.astype(np.float16).view(np.uint8)


def dense_table(layout: BlockLayout, rng: np.random.Generator, width: int) -> BlockTable:
    """One block in one piece."""
    table = contiguous_table(layout, random_block(layout, rng))
    table.widths[0] = width
    return table


def scattered_table(
    layout: BlockLayout, rng: np.random.Generator, widths: Sequence[int], *, slabs: int = 3
) -> BlockTable:
    """Blocks of these widths whose pages lie anywhere in several slabs; pages beyond the width are absent."""
    count, page = layout.page_count, layout.page_bytes
    per_slab = len(widths) * count // slabs + 2
    memory = [np.full(per_slab * page, POISON, np.uint8) for _ in range(slabs)]
    places = rng.permutation(per_slab * slabs)[: len(widths) * count].reshape(len(widths), count)
    page_table = np.full((len(widths), count), -1, np.int32)
    for expert, width in enumerate(widths):
        block = random_block(layout, rng)
        for number in range(layout.pages_at_width(width)):
            page_id = int(places[expert, number])
            start = page_id % per_slab * page
            memory[page_id // per_slab][start : start + page] = block[number * page : (number + 1) * page]
            page_table[expert, number] = page_id
    bases = np.array([slab.ctypes.data for slab in memory], np.uint64)
    return BlockTable(
        layout, Pages(bases, per_slab, page), page_table, np.array(widths, np.uint8), {"memory": memory}
    )


@contextmanager
def linear_ops(isa: str, threads: int, shape: WorkspaceShape) -> Iterator[CpuOps]:
    """Operations with just the workspace that they ask for, full of NaN; fails if they wrote around it."""
    ops = CpuOps(isa, threads, spin_us=0)
    needed = linear_workspace_bytes(ops.context, shape)
    buffer = np.full(needed + 2 * GUARD, POISON, np.uint8)
    ops.set_workspace(buffer[GUARD : GUARD + needed])
    try:
        yield ops
    finally:
        ops.close()
    assert (buffer[:GUARD] == POISON).all() and (buffer[GUARD + needed :] == POISON).all(), "wrote around it"


class GuardedOutput:
    """An output array amid NaN; `check` fails if the NaN around it changed."""

    def __init__(self, *shape: int, gap: int = 0) -> None:
        *outer, cols = shape
        self._memory = np.full(GUARD // 4 * 2 + int(np.prod(outer)) * (cols + gap), np.nan, np.float32)
        rows = self._memory[GUARD // 4 : -GUARD // 4].reshape(*outer, cols + gap)
        self.array: F32 = rows[..., :cols]
        self._gap = rows[..., cols:]

    def check(self) -> None:
        edge = GUARD // 4
        around = np.concatenate([self._memory[:edge], self._memory[-edge:]])
        assert np.isnan(around).all(), "wrote around out"
        assert np.isnan(self._gap).all(), "wrote between the rows of out"


def weights_of(table: BlockTable, index: int = 0) -> list[Weights]:
    """Every view of a block."""
    return [load_view(table, index, view) for view in range(len(table.layout.views))]


def product_bound(x: NDArray[np.floating], weights: Weights) -> NDArray[np.float64]:
    """Largest |kernel - exact| of x W^T, [M, N].

    x is rounded to steps of a = max / 1919 per 32 columns: at most half a step each (and a little, as x / a
    itself is rounded), weighed by |w|. Then come f32 roundings: fewer than 8 per group, plus one per group in
    the running sum, each at most one unit of the magnitudes that are added.
    """
    rows, cols = x.shape
    groups = cols // 32
    w = weights.dense().numpy()
    peak = np.abs(x.astype(np.float64)).reshape(rows, groups, 32).max(axis=2)
    step = np.repeat(peak / 1919, 32, axis=1)
    quantised = 0.503 * step @ np.abs(w).T
    scale, minimum = (np.repeat(np.abs(t.numpy()), 16, axis=1) for t in (weights.scale, weights.minimum))
    parts = scale * (weights.codes.numpy() * weights.step + abs(weights.offset)) + minimum
    return np.asarray(quantised + (2 * groups + 16) * UNIT * ((np.abs(x) + step) @ parts.T))
