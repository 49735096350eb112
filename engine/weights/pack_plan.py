"""The plan of a pack: its header and, for every block, where it goes and what it is made of."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from gguf.constants import GGMLQuantizationType, Keys

from ebbtide.engine.gguf import KeyType
from ebbtide.engine.gguf.remedy import PACK_KEY
from ebbtide.engine.model.mapping import KINDS, Kind, Parts
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.checksums import CHECKSUM_BYTES, Places, extent_sizes
from ebbtide.engine.weights.direct import DIRECT_ALIGN
from ebbtide.engine.weights.gguf_header import NUMBER, TEXT, Entry, encode_header
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_index import (
    CHECKSUM_TENSOR,
    ERROR_BYTES,
    ERRORS_TENSOR,
    INDEX_KEY,
    REPORT_BYTES,
    REPORT_TENSOR,
    PackIndex,
    bank_tensor,
    block_tensor,
    errors_shape,
    identify,
    records_of,
    vector_tensor,
)
from ebbtide.engine.weights.source import expert_shapes
from ebbtide.kernels.layout import BlockLayout


class Unit(NamedTuple):
    """A piece of work: a block (`parts`, `layout`) or a vector (its name), and its bytes in the pack.

    Its checksums are those of `pieces` (sizes in bytes), from place `checksum` on.
    """

    offset: int
    nbytes: int
    checksum: int
    pieces: tuple[int, ...]
    parts: Parts = ()
    layout: BlockLayout | None = None
    vector: str = ""
    expert: tuple[int, Kind, int] | None = None
    """(layer, kind, expert) of an expert's block."""


@dataclass(frozen=True)
class PackPlan:
    """`units` lie in the order of the file and fill it but for header, checksums and report."""

    index: PackIndex
    header: bytes
    units: tuple[Unit, ...]
    checksums_offset: int
    report_offset: int
    errors_offset: int = 0
    """Of `ERRORS_TENSOR`, where there is one."""
    errors_checksum: int = 0
    """Its place."""

    @property
    def header_sha256(self) -> str:
        """Tells plans apart: the header holds the index, and so the source's identity."""
        return hashlib.sha256(self.header).hexdigest()

    @property
    def total_bytes(self) -> int:
        return self.report_offset + REPORT_BYTES

    @property
    def errors_shape(self) -> tuple[int, int, int, int]:
        """Of `ERRORS_TENSOR`."""
        return errors_shape(self.index)

    def errors_place(self, layer: int, kind: Kind, expert: int) -> int:
        """Where the errors of a block are."""
        _, kinds, experts, widths = self.errors_shape
        block = (layer * kinds + KINDS.index(kind)) * experts + expert
        return self.errors_offset + ERROR_BYTES * widths * block


class _Table:
    """Hands out places in the data section."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.end = 0

    def place(self, name: str, shape: tuple[int, ...], kind: GGMLQuantizationType, nbytes: int) -> int:
        offset = -(-self.end // DIRECT_ALIGN) * DIRECT_ALIGN
        self.entries.append(Entry(name, shape, kind, offset))
        self.end = offset + nbytes
        return offset


def plan_pack(source: GgufSource, books: BookWish | None = None) -> PackPlan:
    """Lay out the pack of a model; equal files and settings give equal plans.

    books: its experts get any-precision codes. Raises ValueError for pages that direct reads cannot fill, and
    for books of a model without experts.
    """
    if books is not None and not source.map.experts:
        raise ValueError("only experts have any-precision codes")
    if source.page_bytes % DIRECT_ALIGN:
        raise ValueError(f"pages of {source.page_bytes} bytes are not multiples of {DIRECT_ALIGN}")
    index, table, units = _index(source, books), _Table(), []
    places = Places(index)
    units += [_vector_unit(table, places, name, shape) for name, shape in index.vectors.items()]
    for name, parts in source.map.dense.items():
        layout = index.dense_layout(name)
        size = layout.span_bytes
        at = table.place(block_tensor(name), (size,), GGMLQuantizationType.I8, size)
        units.append(Unit(at, size, places.dense[name], (size,), parts, layout))
    for layer in range(len(index.experts)):
        for kind in KINDS:
            units += _bank_units(table, places, index, source, layer, kind)
    errors = 0
    if books is not None:
        shape = errors_shape(index)
        size = ERROR_BYTES * math.prod(shape)
        errors = table.place(ERRORS_TENSOR, shape, GGMLQuantizationType.F32, size)
    size = CHECKSUM_BYTES * places.count
    checksums = table.place(CHECKSUM_TENSOR, (places.count,), GGMLQuantizationType.I32, size)
    report = table.place(REPORT_TENSOR, (REPORT_BYTES,), GGMLQuantizationType.I8, REPORT_BYTES)
    header = encode_header(_keys(source, index), table.entries)
    placed = tuple(unit._replace(offset=len(header) + unit.offset) for unit in units)
    start = len(header)
    ends = start + checksums, start + report, start + errors
    return PackPlan(index, header, placed, *ends, places.errors)


def _vector_unit(table: _Table, places: Places, name: str, shape: tuple[int, ...]) -> Unit:
    nbytes = 4 * math.prod(shape)
    at = table.place(vector_tensor(name), shape, GGMLQuantizationType.F32, nbytes)
    return Unit(at, nbytes, places.vectors[name], (nbytes,), vector=name)


def _bank_units(
    table: _Table, places: Places, index: PackIndex, source: GgufSource, layer: int, kind: Kind
) -> list[Unit]:
    blocks, layout = source.map.experts[layer, kind], index.expert_layout(layer, kind)
    span = layout.span_bytes
    shape = (len(blocks), span)
    at = table.place(bank_tensor(layer, kind), shape, GGMLQuantizationType.I8, len(blocks) * span)
    pieces = tuple(extent_sizes(layout))
    return [
        Unit(
            at + expert * span,
            span,
            places.expert(layer, kind, expert),
            pieces,
            parts,
            layout,
            expert=(layer, kind, expert),
        )
        for expert, parts in enumerate(blocks)
    ]


def _index(source: GgufSource, books: BookWish | None) -> PackIndex:
    wanted = expert_shapes(source.map) if books is None else books.expert_shapes(source.map)
    experts = {at: records_of(shapes) for at, shapes in wanted.items()}
    layers = range(source.spec.layers if experts else 0)
    return PackIndex(
        page_bytes=source.page_bytes,
        floor_planes=source.floor_planes,
        source=identify(source.file),
        spec=source.spec,
        dense={
            name: records_of(tuple(part.shape for part in parts)) for name, parts in source.map.dense.items()
        },
        vectors={name: source.vector_shape(name) for name in source.map.vectors},
        experts=tuple({kind: experts[layer, kind] for kind in KINDS} for layer in layers),
        books=None if books is None else books.record(),
    )


def _keys(source: GgufSource, index: PackIndex) -> dict[str, tuple[KeyType, object]]:
    metadata = source.file.metadata
    keys = {key: (metadata.types[key], metadata[key]) for key in metadata}
    keys[Keys.General.ALIGNMENT] = (NUMBER, DIRECT_ALIGN)
    keys[PACK_KEY] = (NUMBER, index.version)
    keys[INDEX_KEY] = (TEXT, msgspec.json.encode(index).decode())
    return keys


def encode_report(notices: list[str]) -> bytes:
    """The report tensor's bytes: notices that do not fit are left out, last first."""
    kept = list(notices)
    while len(raw := json.dumps(kept).encode()) > REPORT_BYTES:
        kept.pop()
    return raw.ljust(REPORT_BYTES)
