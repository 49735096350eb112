"""What a pack says about itself: the model, the shapes of its blocks, and the file it was made from."""

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import KINDS, Kind
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.pack_names import BOOKS_SUFFIX, PACK_SUFFIX
from ebbtide.engine.weights.source import Shapes
from ebbtide.kernels.layout import MAX_PLANES, BlockLayout, MatrixShape, block_layout, format_named

PACK_VERSION = 2
BOOKS_VERSION = 3
"""Of a pack with any-precision codes, which a version 2 would not know how to read."""
INDEX_KEY = "ebbtide.pack.index"
REPORT_TENSOR = "report"
"""Notices as JSON, padded with spaces: they are known only when the header has long been written."""
REPORT_BYTES = 4096
CHECKSUM_TENSOR = "checksums"
"""u32, see `checksums.py`."""
ERRORS_TENSOR, ERROR_BYTES = "books.errors", 4
"""f32[layers, 2, experts, 9] of a pack with any-precision codes: see `any_precision_block`."""


class SourceIdentity(msgspec.Struct, frozen=True):
    """Tells whether a file is still the one that was packed."""

    name: str
    size_bytes: int
    mtime_ns: int
    header_sha256: str


class MatrixRecord(msgspec.Struct, frozen=True, array_like=True):
    """A matrix of a block."""

    rows: Annotated[int, msgspec.Meta(ge=1)]
    cols: Annotated[int, msgspec.Meta(ge=1)]
    format: str


Records = tuple[MatrixRecord, ...]


ABOUT_BOOKS = (
    "Experts have any-precision codes: other weights than the model file's, near them. Exact means exact in "
    "what these codes stand for with all planes."
)


class Books(msgspec.Struct, frozen=True):
    """All that the any-precision codes of a pack follow from, beside the model.

    They are other weights than the model's own, near them: exact computation with such a pack is exact in
    what its codes stand for with all planes, and gives other tokens than the model file.
    """

    planes: Annotated[int, msgspec.Meta(ge=1, le=8)]
    """Of an expert's matrix, or as many as the model's own codes have bits where these are fewer."""
    seed_width: Annotated[int, msgspec.Meta(ge=1)]
    moments_sha256: str
    """Of the calibration's moments that weigh the errors; empty = of the weights alone."""
    about: str = ABOUT_BOOKS
    """For whoever reads the file."""


class PackIndex(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a load needs beside the bytes. `experts` has one entry per layer, none in a dense model."""

    page_bytes: int
    floor_planes: int
    source: SourceIdentity
    spec: ModelSpec
    dense: dict[str, Records]
    vectors: dict[str, tuple[int, ...]]
    experts: tuple[dict[Kind, Records], ...]
    books: Books | None = None
    """None = experts have the model's own codes."""

    @property
    def version(self) -> int:
        """Of a pack with this index."""
        return PACK_VERSION if self.books is None else BOOKS_VERSION

    def dense_layout(self, name: str) -> BlockLayout:
        return block_layout(shapes_of(self.dense[name]), page_bytes=0, floor_planes=8)

    def expert_layout(self, layer: int, kind: Kind) -> BlockLayout:
        shapes = shapes_of(self.experts[layer][kind])
        return block_layout(shapes, page_bytes=self.page_bytes, floor_planes=self.floor_planes)


def records_of(shapes: Shapes) -> Records:
    """Shapes as they are stored."""
    return tuple(MatrixRecord(shape.rows, shape.cols, shape.format.name) for shape in shapes)


def shapes_of(records: Records) -> list[MatrixShape]:
    """Stored shapes. Raises KeyError for a format that this version does not know."""
    return [MatrixShape(record.rows, record.cols, format_named(record.format)) for record in records]


def block_tensor(name: str) -> str:
    """The tensor that holds a dense block."""
    return f"block.{name}"


def vector_tensor(name: str) -> str:
    """The tensor that holds an f32 array."""
    return f"vector.{name}"


def bank_tensor(layer: int, kind: Kind) -> str:
    """The tensor that holds the address spaces of a layer's experts, back to back."""
    return f"experts.{layer}.{kind}"


def errors_shape(index: PackIndex) -> tuple[int, int, int, int]:
    """Of `ERRORS_TENSOR`."""
    return len(index.experts), len(KINDS), index.spec.experts, MAX_PLANES + 1


def identify(file: GgufFile) -> SourceIdentity:
    """The identity of a model file as it is on disk now. Raises ModelError where it cannot be read."""
    try:
        status = file.path.stat()
        with file.path.open("rb") as stream:
            header = stream.read(file.data_offset)
    except OSError as error:
        raise ModelError(
            f"{file.path.name} cannot be read: {error.strerror}",
            hint="Check the path, its permissions and the disk.",
        ) from error
    digest = hashlib.sha256(header).hexdigest()
    return SourceIdentity(file.path.name, status.st_size, status.st_mtime_ns, digest)


def pack_path_for(model_path: Path, cache_dir: Path, *, books: bool = False) -> Path:
    """Where the pack of a model belongs: one place per resolved path; any-precision codes have their own."""
    where = hashlib.sha256(str(model_path.resolve()).encode()).hexdigest()[:12]
    return cache_dir / "packs" / f"{model_path.stem}-{where}{BOOKS_SUFFIX if books else PACK_SUFFIX}"
