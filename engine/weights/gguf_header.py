"""Writing the header of a GGUF file: version 3, keys with their original types, a tensor table."""

from collections.abc import Mapping, Sequence
from struct import pack
from typing import NamedTuple

import numpy as np
from gguf.constants import GGMLQuantizationType, GGUFValueType

from ebbtide.engine.gguf import KeyType
from ebbtide.engine.weights.direct import DIRECT_ALIGN

_SCALAR_CODES = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
TEXT = KeyType(GGUFValueType.STRING)
NUMBER = KeyType(GGUFValueType.UINT32)


class Entry(NamedTuple):
    """A tensor of the file to be: `shape` rows first, `offset` from the start of the data section."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int


def encode_header(keys: Mapping[str, tuple[KeyType, object]], tensors: Sequence[Entry]) -> bytes:
    """Everything before the tensor data, padded to DIRECT_ALIGN. Equal input gives equal bytes."""
    parts = [b"GGUF", pack("<IQQ", 3, len(tensors), len(keys))]
    for key, (kind, value) in keys.items():
        parts += [_text(key), pack("<I", kind.value), _value(kind, value)]
    for entry in tensors:
        dims = tuple(reversed(entry.shape))
        parts += [_text(entry.name), pack(f"<I{len(dims)}Q", len(dims), *dims)]
        parts.append(pack("<IQ", entry.kind, entry.offset))
    header = b"".join(parts)
    return header + bytes(-len(header) % DIRECT_ALIGN)


def _value(kind: KeyType, value: object) -> bytes:
    if kind.value is GGUFValueType.STRING:
        return _text(str(value))
    if kind.items is None:
        return pack("<" + _SCALAR_CODES[kind.value], value)
    if kind.items is GGUFValueType.STRING:
        assert isinstance(value, list)
        return pack("<IQ", kind.items, len(value)) + b"".join(map(_text, value))
    numbers = np.asarray(value)
    return pack("<IQ", kind.items, numbers.size) + numbers.tobytes()


def _text(text: str) -> bytes:
    raw = text.encode()
    return pack("<Q", len(raw)) + raw
