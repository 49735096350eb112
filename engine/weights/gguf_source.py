"""Weights from a plain GGUF: read directly and converted to planes on arrival."""

import ctypes
import math
import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ebbtide.engine.gguf import GgufFile, TensorInfo
from ebbtide.engine.model.families import map_model, spec_from_gguf
from ebbtide.engine.model.mapping import Kind, Parts
from ebbtide.engine.weights.codes import F32, FLOAT_TYPES, U8, to_float
from ebbtide.engine.weights.convert import Losses, Put, convert_block, put_into, put_into_pages
from ebbtide.engine.weights.decode import decode
from ebbtide.engine.weights.direct import DirectFile, Target
from ebbtide.engine.weights.float_types import floats_of
from ebbtide.engine.weights.source import check_targets, extent_range, vector_bytes
from ebbtide.kernels.layout import STRIP_ROWS, BlockLayout, MatrixFormat, block_layout


class GgufSource:
    """A `WeightSource` over a model file. `page_bytes` may stay 0 for a model without experts.

    Raises ModelError, by name, for whatever in the file is missing, contradictory or not supported.
    """

    def __init__(self, file: GgufFile, *, page_bytes: int = 0, floor_planes: int = 2) -> None:
        self.file = file
        self.spec = spec_from_gguf(file)
        self.map = map_model(file, self.spec)
        self.page_bytes = page_bytes
        self.floor_planes = floor_planes
        self.reader = DirectFile(file.path)
        self._losses = Losses()
        self._lock = threading.Lock()

    @property
    def notices(self) -> list[str]:
        """What is known so far: a float type counts once some of its weights have been read."""
        with self._lock:
            return [*self._losses.notices(), *([self.reader.notice] if self.reader.notice else [])]

    @cached_property
    def static_bytes(self) -> int:
        blocks = sum(self.dense_layout(name).span_bytes for name in self.map.dense)
        return blocks + vector_bytes(self.vector_shape(name) for name in self.map.vectors)

    def vector_shape(self, name: str) -> tuple[int, ...]:
        """Shape of `vector(name)`: a leading dimension of 1 is dropped, several tensors are joined."""
        shapes = [_array_shape(tensor) for tensor in self.map.vectors[name]]
        return shapes[0] if len(shapes) == 1 else (sum(math.prod(shape) for shape in shapes),)

    def has(self, name: str) -> bool:
        return name in self.map.dense or name in self.map.vectors

    def dense_layout(self, name: str) -> BlockLayout:
        return block_layout([part.shape for part in self.map.dense[name]], page_bytes=0, floor_planes=8)

    def formats(self) -> set[MatrixFormat]:
        blocks = [*self.map.dense.values(), *(experts[0] for experts in self.map.experts.values())]
        return {part.shape.format for block in blocks for part in block}

    def read_dense(self, name: str, out: U8) -> None:
        self._convert(self.map.dense[name], self.dense_layout(name), put_into(out))

    def check_dense(self, name: str) -> None:
        """A plain file has no checksums; but it must be readable, and what float weights lose is counted."""
        self._convert(self.map.dense[name], self.dense_layout(name), lambda at, data: None)

    def read_strip(self, name: str, strip: int, outs: Sequence[U8]) -> None:
        (whole,) = self.map.dense[name]
        first = strip * STRIP_ROWS
        rows = min(STRIP_ROWS, whole.rows - first)
        part = whole._replace(first_row=whole.first_row + first, rows=rows)
        layout = block_layout([part.shape], page_bytes=0, floor_planes=8)
        block = np.empty(layout.span_bytes, np.uint8)
        convert_block(self.reader.read, (part,), layout, put_into(block), Losses())
        for (at, nbytes), out in zip(layout.views[0].strip(0), outs, strict=True):
            out[:] = block[at : at + nbytes]

    def vector(self, name: str) -> F32:
        arrays = [self._floats(tensor) for tensor in self.map.vectors[name]]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def expert_layout(self, layer: int, kind: Kind) -> BlockLayout:
        if not self.page_bytes:
            raise ValueError("expert blocks need a page size")
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
        pages = [_memory(*target) for target in targets]
        return self._convert(self.map.experts[layer, kind][expert], layout, put_into_pages(start, pages))

    def close(self) -> None:
        self.reader.close()

    @cached_property
    def _expert_layouts(self) -> dict[tuple[int, Kind], BlockLayout]:
        return {
            at: block_layout(
                [part.shape for part in blocks[0]], page_bytes=self.page_bytes, floor_planes=self.floor_planes
            )
            for at, blocks in self.map.experts.items()
        }

    def _convert(self, parts: Parts, layout: BlockLayout, put: Put) -> int:
        losses = Losses()
        read = convert_block(self.reader.read, parts, layout, put, losses)
        with self._lock:
            self._losses.merge(losses)
        return read

    def _floats(self, tensor: TensorInfo) -> F32:
        """A whole tensor as f32, whatever its type."""
        raw, shape = self.reader.read(tensor.offset, tensor.nbytes), _array_shape(tensor)
        if tensor.type_name in FLOAT_TYPES:
            return floats_of(raw, tensor.type_name).reshape(shape).copy()
        codes = decode(raw, tensor.type_name, math.prod(tensor.shape[:-1]), tensor.shape[-1])
        return to_float(codes.format, codes.codes, codes.scales).reshape(shape)


def _memory(address: int, size: int) -> U8:
    """Writable bytes at an address that the caller keeps alive."""
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


def _array_shape(tensor: TensorInfo) -> tuple[int, ...]:
    return tensor.shape[1:] if len(tensor.shape) > 1 and tensor.shape[0] == 1 else tensor.shape
