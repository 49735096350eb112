"""The dense weights of a model in memory: plane blocks and f32 vectors, outside the arena, counted as
static.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.model.embedding import EMBEDDING, Embedding, EmbeddingOnDisk, WholeEmbedding
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.ops import BlockTable, contiguous_table

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]


@dataclass(frozen=True)
class LayerWeights:
    """One layer's dense parts; what a family lacks is None. Vectors are f32."""

    attn_norm: F32
    qkv: BlockTable
    qkv_bias: F32 | None
    q_norm: F32 | None
    k_norm: F32 | None
    attn_out: BlockTable
    ffn_norm: F32
    router: F32 | None
    gate_up: BlockTable | None
    down: BlockTable | None
    shared_gate_up: BlockTable | None
    shared_down: BlockTable | None
    shared_gate: F32 | None


@dataclass(frozen=True)
class DenseWeights:
    """All dense weights. `head` is the embedding's own block when the two are tied."""

    layers: tuple[LayerWeights, ...]
    embedding: Embedding
    head: BlockTable
    final_norm: F32
    rope_factors: F32 | None
    static_bytes: int
    """Of what is in memory to stay."""

    def blocks(self) -> Iterator[BlockTable]:
        """Every block, each once."""
        yield self.embedding.table
        if self.head is not self.embedding.table:
            yield self.head
        for layer in self.layers:
            yield from (part for part in vars(layer).values() if isinstance(part, BlockTable))


class Home(Protocol):
    """Where dense weights live. Raises FitError where there is no room."""

    def block(self, layout: BlockLayout, read: Callable[[U8], None]) -> BlockTable:
        """One block at full width; `read` fills host memory of `layout.span_bytes`."""
        ...

    def vector(self, values: F32) -> F32:
        """What kernels get for these values."""
        ...


class HostHome:
    """Private anonymous memory of this process."""

    def block(self, layout: BlockLayout, read: Callable[[U8], None]) -> BlockTable:
        """See `Home.block`."""
        # Anonymous memory starts on a page, so a pack's bytes can be read straight into it.
        buffer = anonymous(max(layout.span_bytes, 1), huge_pages=True)
        read(buffer[: layout.span_bytes])
        return contiguous_table(layout, buffer)

    def vector(self, values: F32) -> F32:
        """See `Home.vector`."""
        return values


class _Loader:
    """Reads blocks and vectors into their home and keeps count."""

    def __init__(self, source: WeightSource, home: Home, progress: Callable[[int], None]) -> None:
        self._source, self._home, self._progress = source, home, progress
        self._read_bytes = self.static_bytes = 0

    def block(self, name: str) -> BlockTable:
        layout = self._source.dense_layout(name)
        table = self._home.block(layout, partial(self._source.read_dense, name))
        self._count(max(layout.span_bytes, 1))
        return table

    def embedding(self, *, on_disk: bool) -> Embedding:
        """One on disk is read through once, so that damage is found before any row is used."""
        if not on_disk:
            return WholeEmbedding(self.block(EMBEDDING))
        self._source.check_dense(EMBEDDING)
        self._count(self._source.dense_layout(EMBEDDING).span_bytes, stays=False)
        return EmbeddingOnDisk(self._source)

    def vector(self, name: str) -> F32:
        values = np.ascontiguousarray(self._source.vector(name), np.float32)
        self._count(values.nbytes)
        return self._home.vector(values)

    def optional_vector(self, name: str) -> F32 | None:
        return self.vector(name) if self._source.has(name) else None

    def optional_block(self, name: str) -> BlockTable | None:
        return self.block(name) if self._source.has(name) else None

    def _count(self, added: int, *, stays: bool = True) -> None:
        self._read_bytes += added
        self.static_bytes += added if stays else 0
        self._progress(self._read_bytes)


def _load_layer(load: _Loader, index: int) -> LayerWeights:
    at = f"blk.{index}."
    return LayerWeights(
        attn_norm=load.vector(at + "attn_norm"),
        qkv=load.block(at + "qkv"),
        qkv_bias=load.optional_vector(at + "qkv_bias"),
        q_norm=load.optional_vector(at + "q_norm"),
        k_norm=load.optional_vector(at + "k_norm"),
        attn_out=load.block(at + "attn_out"),
        ffn_norm=load.vector(at + "ffn_norm"),
        router=load.optional_vector(at + "router"),
        gate_up=load.optional_block(at + "gate_up"),
        down=load.optional_block(at + "down"),
        shared_gate_up=load.optional_block(at + "shared_gate_up"),
        shared_down=load.optional_block(at + "shared_down"),
        shared_gate=load.optional_vector(at + "shared_gate"),
    )


def load_dense(
    spec: ModelSpec,
    source: WeightSource,
    progress: Callable[[int], None],
    home: Home | None = None,
    *,
    rows_on_disk: bool = False,
) -> DenseWeights:
    """Read every dense weight of `source`; `progress` gets the bytes read so far.

    rows_on_disk: the embedding is not kept (see `EmbeddingOnDisk`); never where it is the head too. Raises
    ModelError for a tensor that cannot be read, FitError where its home has no room for one.
    """
    load = _Loader(source, home or HostHome(), progress)
    embedding = load.embedding(on_disk=rows_on_disk)
    head = load.block("head") if source.has("head") else embedding.table
    layers = tuple(_load_layer(load, index) for index in range(spec.layers))
    final_norm = load.vector("final_norm")
    factors = load.optional_vector("rope_factors")
    return DenseWeights(layers, embedding, head, final_norm, factors, load.static_bytes)
