"""Where weights come from: one protocol over plain model files and packs."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import KINDS, Kind, ModelMap
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.codes import F32, U8
from ebbtide.engine.weights.direct import Target
from ebbtide.kernels.layout import BlockLayout, MatrixFormat, MatrixShape

Shapes = tuple[MatrixShape, ...]
"""The matrices of a block."""


class WeightSource(Protocol):
    """Reads a model's weights as plane blocks and f32 arrays.

    Reads are safe from any number of threads and raise ModelError when the file cannot give the bytes. Names
    of dense blocks and vectors: `engine.model.mapping.ModelMap`.
    """

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def file(self) -> GgufFile:
        """Metadata for tokenizer and template, the original's in a pack."""
        ...

    @property
    def page_bytes(self) -> int: ...

    @property
    def notices(self) -> Sequence[str]:
        """Sentences for the user: errors of float weights in dB, missing direct I/O."""
        ...

    @property
    def static_bytes(self) -> int:
        """Bytes of all dense blocks and vectors in memory."""
        ...

    def has(self, name: str) -> bool:
        """Is there a dense block or vector of this name?"""
        ...

    def dense_layout(self, name: str) -> BlockLayout:
        """Layout of a dense block: one contiguous piece (page_bytes 0)."""
        ...

    def formats(self) -> set[MatrixFormat]:
        """The code books of all plane matrices."""
        ...

    def read_dense(self, name: str, out: U8) -> None:
        """Fill `out` u8[layout.span_bytes], contiguous; faster when it starts on a 4 KiB boundary."""
        ...

    def check_dense(self, name: str) -> None:
        """Read a dense block through, as `read_dense` does and with all that it checks, and keep nothing."""
        ...

    def read_strip(self, name: str, strip: int, outs: Sequence[U8]) -> None:
        """Fill `outs` with the parts (`MatrixView.strip`) of 16 rows of a dense block that is one matrix.

        What is read is not compared with checksums: `check_dense` does that for all rows.
        """
        ...

    def vector(self, name: str) -> F32:
        """Norms f32[D], biases f32[N], routers f32[experts, D]."""
        ...

    def expert_layout(self, layer: int, kind: Kind) -> BlockLayout:
        """Layout of the blocks of a layer's experts."""
        ...

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[Target],
    ) -> int:
        """Read extents first..last (inclusive) of a block into page-sized targets, in the order of its pages.

        Addresses and sizes are multiples of 4 KiB. Returns the bytes read from the file.
        """
        ...

    def close(self) -> None: ...


def expert_shapes(weights: ModelMap) -> dict[tuple[int, Kind], Shapes]:
    """Matrices of the expert blocks of each layer and kind."""
    return {at: tuple(part.shape for part in blocks[0]) for at, blocks in weights.experts.items()}


def distinct_blocks(shapes: Iterable[Shapes], experts: int) -> list[tuple[Shapes, int]]:
    """Distinct expert blocks, each with how many the model has of it: what a page size must suit."""
    return [(block, count * experts) for block, count in Counter(shapes).items()]


def vector_bytes(shapes: Iterable[Sequence[int]]) -> int:
    """Bytes of f32 arrays of these shapes."""
    return sum(4 * math.prod(shape) for shape in shapes)


def extent_range(layout: BlockLayout, first_extent: int, last_extent: int) -> tuple[int, int]:
    """(start, end) of whole pages that hold the extents. Raises ValueError for extents that do not exist."""
    if not 0 <= first_extent <= last_extent < len(layout.extent_ends):
        raise ValueError(f"extents {first_extent}..{last_extent} of {len(layout.extent_ends)}")
    end = layout.extent(last_extent)[1]
    return layout.extent(first_extent)[0], -(-end // layout.page_bytes) * layout.page_bytes


def check_targets(targets: Sequence[Target], nbytes: int) -> None:
    """Raises ValueError unless the targets hold exactly `nbytes`."""
    given = sum(size for _, size in targets)
    if given != nbytes:
        raise ValueError(f"{given} bytes of targets for {nbytes} bytes of pages")


__all__ = [
    "KINDS",
    "Kind",
    "Shapes",
    "WeightSource",
    "check_targets",
    "distinct_blocks",
    "expert_shapes",
    "extent_range",
    "vector_bytes",
]
