"""The tensor table: names, shapes, types and places, checked against each other and against the file."""

from math import prod
from pathlib import Path
from typing import NamedTuple

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from ebbtide.engine.gguf.cursor import Cursor
from ebbtide.engine.gguf.faults import damaged, shown, truncated, unsupported

NAME_BYTES_LIMIT = 64
DIMENSIONS_LIMIT = 4

_RETIRED = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4"}
_RETIRED |= {37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}


class TensorInfo(NamedTuple):
    """One tensor: `shape` in numpy order (rows first, columns last), `offset` from the start of the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    nbytes: int


def read_tensors(cursor: Cursor, count: int) -> list[TensorInfo]:
    """Read `count` entries; `offset` is still relative to the data section. Raises `ModelError`."""
    infos: dict[str, TensorInfo] = {}
    for index in range(count):
        cursor.where = f"tensor number {index + 1} of {count}"
        info = _read_tensor(cursor)
        if info.name in infos:
            raise damaged(cursor.path, f"there are two tensors called {shown(info.name)}")
        infos[info.name] = info
    return list(infos.values())


def place_tensors(
    path: Path, infos: list[TensorInfo], start: int, alignment: int, size: int
) -> dict[str, TensorInfo]:
    """The same tensors at absolute offsets, all inside `size` bytes and none on top of another.

    `start` is the first byte of the data section. Raises `ModelError`.
    """
    placed = [info._replace(offset=start + info.offset) for info in infos]
    previous: TensorInfo | None = None
    for info in sorted(placed, key=lambda info: info.offset):
        if (info.offset - start) % alignment:
            what = f"tensor {shown(info.name)} does not start at a multiple of {alignment} bytes"
            raise damaged(path, what)
        if info.offset + info.nbytes > size:
            raise truncated(path, f"tensor {shown(info.name)}", info.offset + info.nbytes, size)
        if previous and info.offset < previous.offset + previous.nbytes:
            raise damaged(path, f"tensors {shown(previous.name)} and {shown(info.name)} overlap")
        previous = info
    return {info.name: info for info in placed}


def _read_tensor(cursor: Cursor) -> TensorInfo:
    name = cursor.text()
    if not 1 <= len(name.encode()) <= NAME_BYTES_LIMIT:
        raise damaged(cursor.path, f"{cursor.where} has a name of {len(name.encode())} bytes")
    cursor.where = f"tensor {shown(name)}"
    dimensions = cursor.uint32()
    if not 1 <= dimensions <= DIMENSIONS_LIMIT:
        raise damaged(cursor.path, f"{cursor.where} has {dimensions} dimensions")
    shape = tuple(reversed([cursor.uint64() for _ in range(dimensions)]))
    kind = _known_type(cursor, cursor.uint32())
    return TensorInfo(name, shape, kind.name, cursor.uint64(), _checked_nbytes(cursor, shape, kind))


def _checked_nbytes(cursor: Cursor, shape: tuple[int, ...], kind: GGMLQuantizationType) -> int:
    weights_per_block, bytes_per_block = GGML_QUANT_SIZES[kind]
    if 0 in shape:
        raise damaged(cursor.path, f"{cursor.where} has no elements")
    if shape[-1] % weights_per_block:
        what = f"{cursor.where} has rows of {shape[-1]} weights, which {kind.name} cannot hold"
        raise damaged(cursor.path, f"{what} (blocks of {weights_per_block})")
    return prod(shape) // weights_per_block * bytes_per_block


def _known_type(cursor: Cursor, number: int) -> GGMLQuantizationType:
    if number in GGML_QUANT_SIZES:
        return GGMLQuantizationType(number)
    name = f"the retired type {_RETIRED[number]}" if number in _RETIRED else f"the unknown type {number}"
    hint = "Use a file in a current type such as Q4_K_M or Q8_0, or a newer ebbtide."
    raise unsupported(cursor.path, f"{cursor.where} has {name}", hint)
