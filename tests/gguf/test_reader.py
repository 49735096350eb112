"""What a well-formed file gives, compared with what was written and with the gguf package's own reader."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGUFValueType

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile, KeyType, TensorInfo, open_gguf
from tests.helpers.tiny_gguf import F64, I8, I64, U16, TinyTensor, Typed, build_gguf

Q4_0, Q8_0 = 2, 8


def opened(tmp_path: Path, content: bytes) -> GgufFile:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)
    return open_gguf(path)


def test_every_kind_of_value(tmp_path: Path) -> None:
    keys: dict[str, object] = {
        "small": Typed(I8, -5),
        "medium": Typed(U16, 65535),
        "large": Typed(I64, -(1 << 40)),
        "number": 7,
        "half": 0.5,
        "double": Typed(F64, 1e300),
        "yes": True,
        "no": False,
        "text": "größer 🌊",
        "texts": ["a", "", "日本"],
        "ints": np.array([1, -2, 3], np.int32),
        "floats": np.array([0.25, -1.5], np.float32),
        "flags": np.array([True, False]),
        "nothing": np.array([], np.uint8),
    }
    file = opened(tmp_path, build_gguf(keys))
    assert list(file.metadata) == list(keys)
    assert file.metadata["small"] == -5
    assert file.metadata["medium"] == 65535
    assert file.metadata["large"] == -(1 << 40)
    assert file.metadata["double"] == 1e300
    assert (file.metadata["yes"], file.metadata["no"]) == (True, False)
    assert file.metadata["text"] == "größer 🌊"
    assert file.metadata["texts"] == ["a", "", "日本"]
    for name in ("ints", "floats", "flags", "nothing"):
        np.testing.assert_array_equal(np.asarray(file.metadata[name]), np.asarray(keys[name]))
    assert file.metadata.types["texts"] == KeyType(GGUFValueType.ARRAY, GGUFValueType.STRING)
    assert file.metadata.types["small"] == KeyType(GGUFValueType.INT8)


@pytest.mark.parametrize("version", [2, 3])
def test_tensors_lie_where_they_were_written(tmp_path: Path, version: int) -> None:
    first, second = bytes(range(18)) * 2, bytes(34)
    tensors = [TinyTensor("a.weight", (2, 32), Q4_0, first), TinyTensor("b.weight", (1, 1, 32), Q8_0, second)]
    content = build_gguf({"x": 1}, tensors, version=version)
    file = opened(tmp_path, content)
    info = file.tensors["a.weight"]
    assert info == TensorInfo("a.weight", (2, 32), "Q4_0", file.data_offset, 36)
    assert content[info.offset : info.offset + info.nbytes] == first
    assert file.tensors["b.weight"].shape == (1, 1, 32)
    assert file.tensors["b.weight"].offset == file.data_offset + 64
    assert (file.version, file.size_bytes, file.alignment) == (version, len(content), 32)


def test_alignment_of_the_file_counts(tmp_path: Path) -> None:
    tensors = [TinyTensor("a", (3,), 0, bytes(12)), TinyTensor("b", (3,), 0, bytes(12))]
    file = opened(tmp_path, build_gguf({"general.alignment": 4096}, tensors, alignment=4096))
    assert file.data_offset == 4096
    assert file.tensors["b"].offset == 8192


def test_the_gguf_package_writes_what_we_read(tmp_path: Path) -> None:
    path = tmp_path / "package.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(512)
    writer.add_token_list(["<s>", "a", "b"])
    writer.add_token_scores([0.0, -1.0, -2.0])
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((4, 64)).astype(np.float32)
    for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q5_1):
        writer.add_tensor(kind.name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.add_tensor("plain", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file, package = open_gguf(path), gguf.GGUFReader(str(path))
    for tensor in package.tensors:
        info = file.tensors[tensor.name]
        assert (info.offset, info.nbytes) == (tensor.data_offset, tensor.n_bytes)
        assert info.shape == tuple(reversed(tensor.shape.tolist()))
        assert info.type_name == tensor.tensor_type.name
    assert file.require_int("llama.context_length") == 512
    assert file.require_strs("tokenizer.ggml.tokens") == ["<s>", "a", "b"]
    assert file.require_floats("tokenizer.ggml.scores").tolist() == [0.0, -1.0, -2.0]


def test_a_file_without_tensors_is_a_vocabulary(tmp_path: Path) -> None:
    assert opened(tmp_path, build_gguf({"general.architecture": "llama"})).tensors == {}


def test_typed_access(tmp_path: Path) -> None:
    keys = {
        "i": 3,
        "f": 0.5,
        "b": True,
        "s": "x",
        "ss": ["x"],
        "is": np.array([1, 2], np.uint16),
        "inf": float("inf"),
    }
    file = opened(tmp_path, build_gguf(keys))
    assert file.require_int("i") == 3
    assert file.require_float("i") == 3.0  # converters write whole numbers where numbers are meant
    assert file.require_float("f") == 0.5
    assert file.require_bool("b") is True
    assert file.require_str("s") == "x"
    assert file.require_strs("ss") == ["x"]
    assert file.require_ints("is").tolist() == [1, 2]
    assert file.get_int("absent", 5) == 5
    assert file.get_float("absent", None) is None
    assert file.get_bool("b", False) is True
    assert file.get_str("absent", "y") == "y"


@pytest.mark.parametrize(
    ("method", "key", "found"),
    [
        ("require_int", "f", "the number 0.5"),
        ("require_int", "b", "true or false"),
        ("require_int", "s", "text"),
        ("require_float", "b", "true or false"),
        ("require_float", "inf", "the number inf"),
        ("require_bool", "i", "a whole number"),
        ("require_str", "ss", "a list of texts"),
        ("require_strs", "s", "text"),
        ("require_ints", "fs", "a list of float32"),
        ("require_floats", "nan", "a list of float32"),
        ("require_floats", "i", "a whole number"),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, method: str, key: str, found: str) -> None:
    keys = {"i": 3, "f": 0.5, "b": True, "s": "x", "ss": ["x"], "inf": float("inf")}
    lists = {"fs": np.array([0.5], np.float32), "nan": np.array([np.nan], np.float32)}
    file = opened(tmp_path, build_gguf({**keys, **lists}))
    with pytest.raises(ModelError, match=f"key '{key}' holds {found}, not "):
        getattr(file, method)(key)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    file = opened(tmp_path, build_gguf({"x": 1}))
    with pytest.raises(ModelError, match=r"has no key 'general\.architecture'") as caught:
        file.require_str("general.architecture")
    assert caught.value.exit_code == 3
    assert caught.value.hint
