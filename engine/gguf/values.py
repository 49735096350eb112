"""The key/value section: scalars and numbers at once, arrays of strings only when they are asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import numpy as np
from gguf.constants import GGUFValueType
from numpy.typing import DTypeLike, NDArray

from ebbtide.engine.gguf.cursor import Cursor
from ebbtide.engine.gguf.faults import damaged, shown, truncated, unsupported

KEY_LENGTH_LIMIT = 65535

_LENGTH = Struct("<Q")
_SCALARS: dict[GGUFValueType, Struct] = {
    GGUFValueType.UINT8: Struct("<B"),
    GGUFValueType.INT8: Struct("<b"),
    GGUFValueType.UINT16: Struct("<H"),
    GGUFValueType.INT16: Struct("<h"),
    GGUFValueType.UINT32: Struct("<I"),
    GGUFValueType.INT32: Struct("<i"),
    GGUFValueType.FLOAT32: Struct("<f"),
    GGUFValueType.BOOL: Struct("<?"),
    GGUFValueType.UINT64: Struct("<Q"),
    GGUFValueType.INT64: Struct("<q"),
    GGUFValueType.FLOAT64: Struct("<d"),
}
_ARRAYS: dict[GGUFValueType, DTypeLike] = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "<u1",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}


class KeyType(NamedTuple):
    """The stored type of a key; `items` is the element type of an array."""

    value: GGUFValueType
    items: GGUFValueType | None = None


@dataclass(frozen=True, slots=True)
class StringArray:
    """An array of strings as it lies in the file: `count` strings, each behind its 8-byte length."""

    path: Path
    key: str
    count: int
    raw: bytes

    def decode(self) -> list[str]:
        """All strings. Raises `ModelError` if one of them is not UTF-8."""
        raw, unpack, position, strings = self.raw, _LENGTH.unpack_from, 0, []
        try:
            for _ in range(self.count):
                start = position + 8
                position = start + unpack(raw, position)[0]
                strings.append(raw[start:position].decode())
        except UnicodeDecodeError as error:
            raise damaged(self.path, f"key {shown(self.key)} holds text that is not valid UTF-8") from error
        return strings


Value = int | float | bool | str | NDArray[np.generic] | StringArray


class Metadata(Mapping[str, object]):
    """The keys of a file: numbers as int, float or bool, texts as str, arrays as numpy or as lists of str.

    Arrays of strings are decoded at each access: keep what you use more than once.
    """

    def __init__(self, values: dict[str, Value], types: dict[str, KeyType]) -> None:
        self._values = values
        self.types: Mapping[str, KeyType] = types

    def __getitem__(self, key: str) -> object:
        value = self._values[key]
        return value.decode() if isinstance(value, StringArray) else value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def read_metadata(cursor: Cursor, count: int) -> Metadata:
    """Read `count` keys. Raises `ModelError` on unknown types, unusable or doubled names, missing bytes."""
    values: dict[str, Value] = {}
    types: dict[str, KeyType] = {}
    for index in range(count):
        cursor.where = f"key number {index + 1} of {count}"
        key = cursor.text()
        if key in values:
            raise damaged(cursor.path, f"key {shown(key)} is there twice")
        if not 1 <= len(key) <= KEY_LENGTH_LIMIT:
            raise damaged(cursor.path, f"{cursor.where} has a name of {len(key)} characters")
        cursor.where = f"key {shown(key)}"
        types[key], values[key] = _read_value(cursor, key)
    return Metadata(values, types)


def _read_value(cursor: Cursor, key: str) -> tuple[KeyType, Value]:
    kind = _read_type(cursor)
    if kind is GGUFValueType.ARRAY:
        return _read_array(cursor, key)
    if kind is GGUFValueType.STRING:
        return KeyType(kind), cursor.text()
    return KeyType(kind), cursor.number(_SCALARS[kind])


def _read_array(cursor: Cursor, key: str) -> tuple[KeyType, Value]:
    items, count = _read_type(cursor), cursor.uint64()
    kind = KeyType(GGUFValueType.ARRAY, items)
    if items is GGUFValueType.ARRAY:
        hint = "Use another GGUF of this model."
        raise unsupported(cursor.path, f"{cursor.where} holds arrays of arrays", hint)
    item_bytes = 8 if items is GGUFValueType.STRING else _SCALARS[items].size
    if (end := cursor.position + count * item_bytes) > cursor.size:
        raise truncated(cursor.path, f"{cursor.where}, an array of {count} values,", end, cursor.size)
    if items is GGUFValueType.STRING:
        return kind, StringArray(cursor.path, key, count, cursor.strings(count))
    numbers = np.frombuffer(cursor.raw(count * item_bytes), dtype=_ARRAYS[items])
    return kind, numbers != 0 if items is GGUFValueType.BOOL else numbers


def _read_type(cursor: Cursor) -> GGUFValueType:
    number = cursor.uint32()
    try:
        return GGUFValueType(number)
    except ValueError as error:
        raise damaged(cursor.path, f"{cursor.where} has the unknown value type {number}") from error
