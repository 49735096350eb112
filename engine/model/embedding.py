"""The token embedding: a matrix in memory, or one on disk of which the rows in use are in memory."""

from collections import OrderedDict
from typing import Protocol

import numpy as np

from ebbtide.engine.errors import EbbtideError, ModelError
from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.memory.rows_plan import RowsOnDisk
from ebbtide.engine.model.rows import F32, I32
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.layout import STRIP_ROWS, BlockLayout, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable, KernelError, Operations, contiguous_table

EMBEDDING = "embedding"
MOST_STRIPS = 64
"""Strips of 16 rows in memory at once. Six in ten tokens of a text are in the 64 used last (English and
Python, vocabulary of OLMoE): those of byte pair encodings begin with what is frequent."""
LEAST_PARTS = 8
"""A matrix stays in memory unless it is so many times as large as the strips that would be."""


class Embedding(Protocol):
    """What gives tokens their first activations."""

    @property
    def table(self) -> BlockTable:
        """The block that kernels take rows from."""
        ...

    def place(self, ids: I32) -> I32:
        """The rows of `table` that hold rows `ids` i32[M] of the matrix, until the next call."""
        ...

    def embed(self, ops: Operations, ids: I32, out: F32) -> None:
        """out f32[M, D] = rows `ids` i32[M], any number of them."""
        ...


class WholeEmbedding:
    """See `Embedding`: all rows are in memory."""

    def __init__(self, table: BlockTable) -> None:
        self.table = table

    def place(self, ids: I32) -> I32:
        """See `Embedding.place`."""
        return ids

    def embed(self, ops: Operations, ids: I32, out: F32) -> None:
        """See `Embedding.embed`."""
        ops.embed(self.table, ids, out)


class EmbeddingOnDisk:
    """See `Embedding`: rows are read when they are needed, in strips of 16; the strips used last stay.

    A strip has the bytes that it has in the whole matrix, so a row has the same bits. `place` and `embed`
    raise ModelError where a strip cannot be read; what is in memory stays right.
    """

    def __init__(self, source: WeightSource) -> None:
        matrix = source.dense_layout(EMBEDDING)
        layout = strips_in_memory(matrix)
        assert layout is not None, "this matrix is to be in memory"
        (view,), buffer = layout.views, anonymous(layout.span_bytes)
        self.table = contiguous_table(layout, buffer)
        self._source, self._rows = source, matrix.rows
        self._parts = [
            [buffer[at : at + nbytes] for at, nbytes in view.strip(slot)] for slot in range(view.shape.strips)
        ]
        self._free = list(range(view.shape.strips))
        self._slots: OrderedDict[int, int] = OrderedDict()
        """Strip of the matrix -> place in memory, the one used longest ago first."""

    def place(self, ids: I32) -> I32:
        """See `Embedding.place`; at most as many ids as strips are in memory. Raises KernelError for an id
        that is no row.
        """
        if ids.min() < 0 or ids.max() >= self._rows:
            raise KernelError(f"embed: rows {ids.min()} to {ids.max()} of {self._rows}")
        strips, inside = np.divmod(ids, STRIP_ROWS)
        self._bring(sorted(set(strips.tolist())))
        slots = np.array([self._slots[strip] for strip in strips.tolist()], np.int32)
        placed: I32 = slots * STRIP_ROWS + inside
        return placed

    def embed(self, ops: Operations, ids: I32, out: F32) -> None:
        """See `Embedding.embed`."""
        most = len(self._parts)
        for start in range(0, ids.size, most):
            some = slice(start, start + most)
            ops.embed(self.table, self.place(ids[some]), out[some])

    def _bring(self, strips: list[int]) -> None:
        """See to it that all are in memory; those that are not are read in the order of the file."""
        missing = [strip for strip in strips if strip not in self._slots]
        for strip in strips:
            if strip in self._slots:
                self._slots.move_to_end(strip)
        for strip in missing:
            slot = self._free.pop() if self._free else self._slots.popitem(last=False)[1]
            try:
                _read(self._source, strip, self._parts[slot])
            except BaseException:
                self._free.append(slot)
                raise
            self._slots[strip] = slot


def _read(source: WeightSource, strip: int, parts: list[U8]) -> None:
    """Whatever fails is an EbbtideError."""
    try:
        source.read_strip(EMBEDDING, strip, parts)
    except EbbtideError:
        raise
    except Exception as error:
        raise ModelError(
            f"Reading the token embedding failed: {error}.",
            hint="Check that the model file is still there and its disk works, then load it again.",
        ) from error


def strips_in_memory(matrix: BlockLayout) -> BlockLayout | None:
    """The layout of the strips in memory of an embedding on disk; None where that would save too little."""
    shape = matrix.views[0].shape
    strips = min(MOST_STRIPS, shape.strips // LEAST_PARTS)
    if not strips:
        return None
    return block_layout(
        [MatrixShape(strips * STRIP_ROWS, shape.cols, shape.format)], page_bytes=0, floor_planes=8
    )


def rows_on_disk(source: WeightSource) -> RowsOnDisk | None:
    """What it means to leave the embedding on disk; None where it is the output matrix as well, or small."""
    if not source.has("head"):
        return None
    matrix = source.dense_layout(EMBEDDING)
    layout = strips_in_memory(matrix)
    return None if layout is None else RowsOnDisk(matrix.span_bytes, layout.span_bytes)
