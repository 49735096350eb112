"""Writes small GGUF files byte by byte, well formed or deliberately not, without the code under test."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_LAYOUTS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q"}
_LAYOUTS[F64] = "d"
_DTYPES = {"u1": U8, "i1": I8, "u2": U16, "i2": I16, "u4": U32, "i4": I32, "f4": F32, "u8": U64, "i8": I64}
_DTYPES |= {"f8": F64, "b1": BOOL}


@dataclass(frozen=True)
class Typed:
    """A value with an explicit value type, where the one guessed from Python's would not do."""

    kind: int
    value: bool | int | float


@dataclass(frozen=True)
class TinyTensor:
    """`shape` rows first; `kind` is the ggml type number; `offset` overrides the place in the data."""

    name: str
    shape: tuple[int, ...]
    kind: int = 0
    data: bytes = b""
    offset: int | None = None


def text(value: str | bytes) -> bytes:
    """A length-prefixed string."""
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value: object) -> bytes:
    """Type number and value; Python ints become U32, floats F32."""
    if isinstance(value, Typed):
        return struct.pack(f"<I{_LAYOUTS[value.kind]}", value.kind, value.value)
    if isinstance(value, str | bytes):
        return struct.pack("<I", STRING) + text(value)
    if isinstance(value, np.ndarray):
        return struct.pack("<IIQ", ARRAY, _DTYPES[value.dtype.str[1:]], value.size) + value.tobytes()
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(text(item) for item in value)
    if isinstance(value, bool):
        return value_bytes(Typed(BOOL, value))
    if isinstance(value, int | float):
        return value_bytes(Typed(U32 if isinstance(value, int) else F32, value))
    raise TypeError(f"no GGUF type for {type(value)}")


def tensor_bytes(tensor: TinyTensor, offset: int) -> bytes:
    """One entry of the tensor table."""
    dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
    return text(tensor.name) + dimensions + struct.pack("<IQ", tensor.kind, offset)


def build_gguf(
    keys: Mapping[str, object],
    tensors: Sequence[TinyTensor] = (),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    alignment: int = 32,
    key_count: int | None = None,
    tensor_count: int | None = None,
) -> bytes:
    """A whole file. `alignment` pads the data; unless it is 32 it belongs among `keys` too."""
    table, data = b"", b""
    for tensor in tensors:
        table += tensor_bytes(tensor, len(data) if tensor.offset is None else tensor.offset)
        data += tensor.data + b"\0" * (-len(tensor.data) % alignment)
    claimed = (tensor_count if tensor_count is not None else len(tensors), key_count or len(keys))
    head = magic + struct.pack("<IQQ", version, *claimed)
    head += b"".join(text(key) + value_bytes(value) for key, value in keys.items()) + table
    return head + b"\0" * (-len(head) % alignment) + data
