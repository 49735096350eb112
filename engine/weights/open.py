"""Opening whatever a person names as a model: a plain GGUF or a pack."""

from pathlib import Path

from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.model.families import spec_from_gguf
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_source import PackSource, is_pack, read_index


def read_spec(file: GgufFile) -> ModelSpec:
    """What the model in a plain GGUF or a pack is. Raises ModelError."""
    return read_index(file).spec if is_pack(file) else spec_from_gguf(file)


def open_weights(path: Path, *, page_bytes: int = 0, floor_planes: int = 2) -> GgufSource | PackSource:
    """A `WeightSource` over the file; a pack brings its own page size and floor. Raises ModelError."""
    file = open_gguf(path)
    if is_pack(file):
        return PackSource(file)
    return GgufSource(file, page_bytes=page_bytes, floor_planes=floor_planes)
