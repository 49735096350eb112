"""Checksums of a pack: one CRC-32 for its header, each vector, each dense block and each extent of an expert.

    [ header | vectors ... | dense ... | layer 0: gate_up: expert 0: extents ..., expert 1: ..., down: ... ]

and behind them, in a pack with any-precision codes, one for their errors. They are u32 in a tensor of their
own. Blocks count with the padding behind them, as they are read.
"""

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf.remedy import PACK_AGAIN
from ebbtide.engine.model.mapping import KINDS, Kind
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.direct import Target
from ebbtide.engine.weights.pack_index import PackIndex
from ebbtide.kernels.layout import BlockLayout

U32 = NDArray[np.uint32]
CHECKSUM_BYTES = 4
HEADER_PLACE = 0
_MADE_AGAIN = "It has been removed: load the model again, and it is made anew."


class Places:
    """Where each checksum is in the table."""

    def __init__(self, index: PackIndex) -> None:
        self.vectors = {name: place for place, name in enumerate(index.vectors, HEADER_PLACE + 1)}
        first = HEADER_PLACE + 1 + len(self.vectors)
        self.dense = {name: place for place, name in enumerate(index.dense, first)}
        self.count = first + len(self.dense)
        self._banks: dict[tuple[int, Kind], tuple[int, int]] = {}
        for layer in range(len(index.experts)):
            for kind in KINDS:
                extents = len(index.expert_layout(layer, kind).extent_ends)
                self._banks[layer, kind] = self.count, extents
                self.count += index.spec.experts * extents
        self.errors = self.count
        """Of `ERRORS_TENSOR`, where there is one."""
        self.count += index.books is not None

    def expert(self, layer: int, kind: Kind, expert: int) -> int:
        """The place of the block's first extent; the others follow."""
        first, extents = self._banks[layer, kind]
        return first + expert * extents


def extent_sizes(layout: BlockLayout) -> list[int]:
    """Bytes of each extent with its padding; together `span_bytes`."""
    starts = [layout.extent(i)[0] for i in range(len(layout.extent_ends))]
    return [end - start for start, end in zip(starts, [*starts[1:], layout.span_bytes], strict=True)]


def crcs_of(pieces: Iterator[memoryview], sizes: Sequence[int]) -> list[int]:
    """The CRC-32 of each stretch of `sizes` bytes of the memory that `pieces` make up together."""
    crcs, view = [], memoryview(b"")
    for size in sizes:
        crc, left = 0, size
        while left:
            view = view or next(pieces)
            part = view[:left]
            crc = zlib.crc32(part, crc)
            view, left = view[len(part) :], left - len(part)
        crcs.append(crc)
    return crcs


def memory_of(targets: Sequence[Target]) -> Iterator[memoryview]:
    """The bytes at each (address, size)."""
    for address, size in targets:
        yield memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class Checks:
    """Compares what is read from a pack with its checksums; used from any number of threads.

    Expert blocks are compared when they are read for the first time only: a CRC costs about a quarter of the
    time of a read, and damage is on the disk before a model is loaded. Raises ModelError where they differ. A
    `disposable` pack, made by ebbtide itself from a model that is still there, is removed then.
    """

    def __init__(self, path: Path, values: U32, *, disposable: bool) -> None:
        self._path, self._values, self._disposable = path, values, disposable
        self._good = bytearray(len(values))

    def whole(self, place: int, data: U8, what: str) -> None:
        """Compare a piece that is read once."""
        self.compare(place, zlib.crc32(data.data), what)

    def extents(self, place: int, sizes: Sequence[int], targets: Sequence[Target], what: str) -> None:
        """Compare the extents from `place` on that have just been read into `targets`."""
        if all(self._good[place : place + len(sizes)]):
            return
        for at, crc in enumerate(crcs_of(memory_of(targets), sizes), place):
            self.compare(at, crc, what)

    def compare(self, place: int, crc: int, what: str) -> None:
        """Compare a CRC that is known already."""
        if crc != self._values[place]:
            raise self._damaged(what)
        self._good[place] = 1

    def _damaged(self, what: str) -> ModelError:
        if self._disposable:
            self._path.unlink(missing_ok=True)
        return ModelError(
            f"The pack {self._path.name} is damaged: {what} is not what was written",
            hint=_MADE_AGAIN if self._disposable else PACK_AGAIN,
        )
