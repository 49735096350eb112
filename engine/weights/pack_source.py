"""Weights from a pack: the file image of a block is its address space, so reads go straight into pages."""

import math
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.gguf.remedy import PACK_AGAIN, PACK_KEY
from ebbtide.engine.model.mapping import KINDS, Kind
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.checksums import CHECKSUM_BYTES, HEADER_PLACE, Checks, Places, extent_sizes
from ebbtide.engine.weights.codes import F32, U8
from ebbtide.engine.weights.direct import DIRECT_ALIGN, DirectFile, Target
from ebbtide.engine.weights.pack_index import (
    BOOKS_VERSION,
    CHECKSUM_TENSOR,
    ERROR_BYTES,
    ERRORS_TENSOR,
    INDEX_KEY,
    PACK_VERSION,
    REPORT_BYTES,
    REPORT_TENSOR,
    PackIndex,
    bank_tensor,
    block_tensor,
    errors_shape,
    identify,
    vector_tensor,
)
from ebbtide.engine.weights.source import check_targets, extent_range, vector_bytes
from ebbtide.kernels.layout import OWN_FORMATS, BlockLayout, MatrixFormat

_PIECE_BYTES = 1 << 20


class PackSource:
    """A `WeightSource` over a pack, with zero-copy reads of experts."""

    def __init__(self, file: GgufFile, *, disposable: bool = False) -> None:
        """disposable: see `Checks`. Raises ModelError for a damaged pack or one of another version."""
        self.file = file
        self.index = read_index(file)
        self.spec: ModelSpec = self.index.spec
        self.page_bytes = self.index.page_bytes
        self._check_tensors()
        self.reader = DirectFile(file.path)
        try:
            self._checks = self._read_checks(disposable)
        except BaseException:
            self.close()
            raise
        self.notices = [*self._report(), *([self.reader.notice] if self.reader.notice else [])]

    @cached_property
    def static_bytes(self) -> int:
        blocks = sum(self.dense_layout(name).span_bytes for name in self.index.dense)
        return blocks + vector_bytes(self.index.vectors.values())

    def matches(self, model: GgufFile) -> bool:
        """Was the pack made from this very file, as it is now?"""
        return identify(model) == self.index.source

    def has(self, name: str) -> bool:
        return name in self.index.dense or name in self.index.vectors

    def dense_layout(self, name: str) -> BlockLayout:
        return self._dense_layouts[name]

    def formats(self) -> set[MatrixFormat]:
        layouts = [*self._dense_layouts.values(), *self._expert_layouts.values()]
        return {view.shape.format for layout in layouts for view in layout.views}

    def read_dense(self, name: str, out: U8) -> None:
        self.reader.read_into(self.file.tensors[block_tensor(name)].offset, out)
        self._checks.whole(self._places.dense[name], out, f"the block {name}")

    def check_dense(self, name: str) -> None:
        tensor = self.file.tensors[block_tensor(name)]
        crc = self._crc(tensor.offset, tensor.offset + tensor.nbytes)
        self._checks.compare(self._places.dense[name], crc, f"the block {name}")

    def read_strip(self, name: str, strip: int, outs: Sequence[U8]) -> None:
        (view,) = self.dense_layout(name).views
        start = self.file.tensors[block_tensor(name)].offset
        for (at, nbytes), out in zip(view.strip(strip), outs, strict=True):
            out[:] = self.reader.read(start + at, nbytes)

    def vector(self, name: str) -> F32:
        tensor = self.file.tensors[vector_tensor(name)]
        data = self.reader.read(tensor.offset, tensor.nbytes)
        self._checks.whole(self._places.vectors[name], data, f"the vector {name}")
        return data.view(np.float32).reshape(self.index.vectors[name]).copy()

    def expert_layout(self, layer: int, kind: Kind) -> BlockLayout:
        return self._expert_layouts[layer, kind]

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[Target],
    ) -> int:
        layout = self.expert_layout(layer, kind)
        start, end = extent_range(layout, first_extent, last_extent)
        check_targets(targets, end - start)
        if not 0 <= expert < self.spec.experts:
            raise ValueError(f"expert {expert} of {self.spec.experts}")
        bank = self.file.tensors[bank_tensor(layer, kind)].offset
        read = self.reader.scatter(bank + expert * layout.span_bytes + start, targets)
        first = self._places.expert(layer, kind, expert) + first_extent
        sizes = self._extent_sizes[layer, kind][first_extent : last_extent + 1]
        self._checks.extents(first, sizes, targets, f"expert {expert} of layer {layer} ({kind})")
        return read

    def book_errors(self) -> F32:
        """f32[layers, 2, experts, 9] of a pack with any-precision codes: see `any_precision_block`."""
        tensor = self.file.tensors[ERRORS_TENSOR]
        data = self.reader.read(tensor.offset, tensor.nbytes)
        self._checks.whole(self._places.errors, data, "the table of errors")
        return data.view("<f4").astype(np.float32).reshape(errors_shape(self.index))

    def close(self) -> None:
        self.reader.close()

    @cached_property
    def _dense_layouts(self) -> dict[str, BlockLayout]:
        return {name: self.index.dense_layout(name) for name in self.index.dense}

    @cached_property
    def _expert_layouts(self) -> dict[tuple[int, Kind], BlockLayout]:
        layers = range(len(self.index.experts))
        return {(layer, kind): self.index.expert_layout(layer, kind) for layer in layers for kind in KINDS}

    @cached_property
    def _extent_sizes(self) -> dict[tuple[int, Kind], list[int]]:
        return {at: extent_sizes(layout) for at, layout in self._expert_layouts.items()}

    @cached_property
    def _places(self) -> Places:
        return Places(self.index)

    def _read_checks(self, disposable: bool) -> Checks:
        """The checksums, of which that of the header is compared at once: it holds shapes and tokens."""
        table = self.file.tensors[CHECKSUM_TENSOR]
        values = self.reader.read(table.offset, table.nbytes).view("<u4").astype(np.uint32)
        checks = Checks(self.file.path, values, disposable=disposable)
        checks.compare(HEADER_PLACE, self._crc(0, self.file.data_offset), "its header")
        return checks

    def _crc(self, start: int, end: int) -> int:
        """The CRC-32 of these bytes of the file."""
        crc = 0
        for at in range(start, end, _PIECE_BYTES):
            crc = zlib.crc32(self.reader.read(at, min(_PIECE_BYTES, end - at)).data, crc)
        return crc

    def _check_tensors(self) -> None:
        """Every block must be there with the size that its layout has. Raises ModelError."""
        wanted = {block_tensor(name): self.dense_layout(name).span_bytes for name in self.index.dense}
        wanted |= {vector_tensor(name): vector_bytes([shape]) for name, shape in self.index.vectors.items()}
        for (layer, kind), layout in self._expert_layouts.items():
            wanted[bank_tensor(layer, kind)] = layout.span_bytes * self.spec.experts
        if self.index.books is not None:
            wanted[ERRORS_TENSOR] = ERROR_BYTES * math.prod(errors_shape(self.index))
        wanted[REPORT_TENSOR] = REPORT_BYTES
        wanted[CHECKSUM_TENSOR] = CHECKSUM_BYTES * self._places.count
        for name, nbytes in wanted.items():
            found = self.file.tensors[name].nbytes if name in self.file.tensors else 0
            if found != nbytes:
                raise _damaged(self.file.path, f"{name} has {found} bytes instead of {nbytes}")

    def _report(self) -> list[str]:
        raw = self.reader.read(self.file.tensors[REPORT_TENSOR].offset, REPORT_BYTES).tobytes()
        try:
            return msgspec.json.decode(raw.rstrip(), type=list[str])
        except msgspec.DecodeError as error:
            raise _damaged(self.file.path, "its report is not readable") from error


def is_pack(file: GgufFile) -> bool:
    """Was this file written by `write_pack`?"""
    return PACK_KEY in file.metadata


def open_pack(path: Path, *, disposable: bool = False) -> PackSource:
    """Open a pack. Raises ModelError when it is not one, is damaged, or has another version.

    disposable: it is removed where it turns out to be damaged, because it can be made again at any time.
    """
    return PackSource(open_gguf(path), disposable=disposable)


def read_index(file: GgufFile) -> PackIndex:
    """What a pack says about itself. Raises ModelError when it is damaged or has another version."""
    version = file.require_int(PACK_KEY)
    if version not in (PACK_VERSION, BOOKS_VERSION):
        newer = "Update ebbtide, or remove" if version > BOOKS_VERSION else "Remove"
        raise ModelError(
            f"{file.path.name} is a pack of version {version}; this ebbtide reads versions {PACK_VERSION} "
            f"and {BOOKS_VERSION}",
            hint=newer + PACK_AGAIN.removeprefix("Remove"),
        )
    try:
        index = msgspec.json.decode(file.require_str(INDEX_KEY), type=PackIndex)
        for name in index.dense:
            index.dense_layout(name)
        for layer, kinds in enumerate(index.experts):
            for kind in kinds:
                index.expert_layout(layer, kind)
        layers = index.spec.layers if index.spec.experts else 0
        if index.page_bytes % DIRECT_ALIGN or len(index.experts) != layers:
            raise ValueError("page size or number of layers")
        if index.version != version or not _formats_fit(index):
            raise ValueError("codes of another kind than its version has")
    except (msgspec.DecodeError, LookupError, ValueError) as error:
        raise _damaged(file.path, "its index is not readable") from error
    return index


def _formats_fit(index: PackIndex) -> bool:
    """Do all experts have books, or nobody?"""
    experts = [one for kinds in index.experts for records in kinds.values() for one in records]
    dense = [one for records in index.dense.values() for one in records]
    books = index.books is not None
    is_right = all((one.format in OWN_FORMATS) is books for one in experts)
    return is_right and not any(one.format in OWN_FORMATS for one in dense)


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"The pack {path.name} is damaged: {what}", hint=PACK_AGAIN)
