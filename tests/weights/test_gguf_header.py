"""Headers are read back as they were written, whatever the types."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType

from ebbtide.engine.gguf import KeyType, open_gguf
from ebbtide.engine.weights.gguf_header import TEXT, Entry, encode_header

V = GGUFValueType


def test_every_value_type_survives(tmp_path: Path) -> None:
    keys: dict[str, tuple[KeyType, object]] = {
        "general.architecture": (TEXT, "l\u00e4ma"),
        "a.u8": (KeyType(V.UINT8), 255),
        "a.i8": (KeyType(V.INT8), -128),
        "a.u16": (KeyType(V.UINT16), 65535),
        "a.i16": (KeyType(V.INT16), -32768),
        "a.u32": (KeyType(V.UINT32), 2**32 - 1),
        "a.i32": (KeyType(V.INT32), -(2**31)),
        "a.u64": (KeyType(V.UINT64), 2**64 - 1),
        "a.i64": (KeyType(V.INT64), -(2**63)),
        "a.f32": (KeyType(V.FLOAT32), 0.5),
        "a.f64": (KeyType(V.FLOAT64), 0.1),
        "a.yes": (KeyType(V.BOOL), True),
        "l.text": (KeyType(V.ARRAY, V.STRING), ["", "\u20ac", "z" * 300]),
        "l.none": (KeyType(V.ARRAY, V.STRING), []),
        "l.i32": (KeyType(V.ARRAY, V.INT32), np.array([1, -2, 3], np.int32)),
        "l.f32": (KeyType(V.ARRAY, V.FLOAT32), np.array([0.25, -1], np.float32)),
        "l.bool": (KeyType(V.ARRAY, V.BOOL), np.array([True, False])),
    }
    entries = [Entry("m", (3, 32), GGMLQuantizationType.F32, 0)]
    entries.append(Entry("b", (7,), GGMLQuantizationType.I8, 512))
    header = encode_header(keys, entries)
    assert len(header) % 4096 == 0
    path = tmp_path / "h.gguf"
    path.write_bytes(header + bytes(519))
    file = open_gguf(path)
    assert list(file.metadata) == list(keys)
    for key, (kind, value) in keys.items():
        assert file.metadata.types[key] == kind
        np.testing.assert_array_equal(np.asarray(file.metadata[key]), np.asarray(value))
    assert file.tensors["m"].shape == (3, 32) and file.tensors["b"].nbytes == 7
