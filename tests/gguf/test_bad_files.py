"""Every way in which a file can be wrong ends in a `ModelError` that says what and what to do."""

import resource
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import open_gguf
from tests.helpers.tiny_gguf import ARRAY, STRING, U32, TinyTensor, build_gguf, text, value_bytes

SHAPE = (4, 32)
TENSOR = TinyTensor("blk.0.weight", SHAPE, 2, bytes(18 * 4))
KEYS: dict[str, object] = {
    "general.architecture": "llama",
    "llama.rope.freq_base": 10000.0,
    "llama.uses_bias": False,
    "tokenizer.ggml.tokens": ["<s>", "a", "日本", ""],
    "tokenizer.ggml.scores": np.array([0.0, -1.0, -2.0, -3.0], np.float32),
}
GOOD = build_gguf(KEYS, [TENSOR, TinyTensor("norm", (8,), 0, bytes(32))])


def refusal(tmp_path: Path, content: bytes) -> ModelError:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_all(path)
    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert "bad.gguf" in str(caught.value)
    return caught.value


def read_all(path: Path) -> None:
    file = open_gguf(path)
    for key in file.metadata:
        assert file.metadata[key] is not None


def raw_key(name: str | bytes, value: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(name) + value


def test_the_good_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "good.gguf"
    path.write_bytes(GOOD)
    read_all(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"There is no file '.*absent\.gguf'"):
        open_gguf(tmp_path / "absent.gguf")


def test_a_folder_a_device_and_a_path_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null"), Path("with\0null")):
        with pytest.raises(ModelError):
            open_gguf(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 and more", "looks like a zip archive or PyTorch checkpoint"),
        (b"<!DOCTYPE html>", "looks like a web page"),
        (b"version https://git-lfs", "looks like a Git LFS pointer"),
        (b"\x10\0\0\0\0\0\0\0{}", "is not a GGUF file"),
        (b"FUGG" + GOOD[4:], "is not a GGUF file"),
    ],
)
def test_not_a_gguf(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in str(refusal(tmp_path, content))


@pytest.mark.parametrize(
    ("version", "says"), [(1, "GGUF version 1"), (4, "GGUF version 4"), (0x03000000, "big-endian")]
)
def test_version(tmp_path: Path, version: int, says: str) -> None:
    assert says in str(refusal(tmp_path, build_gguf(KEYS, version=version)))


def test_truncated_at_every_length(tmp_path: Path) -> None:
    end = GOOD.rindex(bytes(32)) + 32  # padding behind the last tensor may be missing
    for length in range(end):
        error = refusal(tmp_path, GOOD[:length])
        assert length == 0 or "cut short" in str(error)


def test_truncation_names_the_tensor(tmp_path: Path) -> None:
    says = str(refusal(tmp_path, GOOD[:-33]))
    assert "tensor 'norm' reaches to byte" in says
    assert f"the file has only {len(GOOD) - 33} bytes" in says


@pytest.mark.parametrize("claim", [1 << 17, 1 << 32, (1 << 64) - 1])
def test_a_header_that_claims_too_much(tmp_path: Path, claim: int) -> None:
    refusal(tmp_path, build_gguf(KEYS, key_count=claim))
    refusal(tmp_path, build_gguf(KEYS, tensor_count=claim))
    refusal(tmp_path, raw_key(struct.pack("<Q", claim), b""))
    for items in (STRING, U32):
        refusal(tmp_path, raw_key("x", struct.pack("<IIQ", ARRAY, items, claim) + bytes(64)))
    refusal(tmp_path, raw_key("x", struct.pack("<IIQQ", ARRAY, STRING, 2, claim) + bytes(64)))
    refusal(tmp_path, raw_key("x", struct.pack("<IQ", STRING, claim) + bytes(64)))
    refusal(tmp_path, build_gguf({}, [TinyTensor("x", (claim, 1 << 63, claim))]))


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in KiB on Linux only")
def test_false_claims_cost_no_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "bad.gguf"
    with path.open("wb") as stream:  # a sparse file of 1 TiB, so that the claims fit inside
        stream.write(raw_key("x", struct.pack("<IIQ", ARRAY, U32, 1 << 37)))
        stream.truncate(1 << 40)
    with pytest.raises(ModelError, match="larger than 128 MiB"):
        open_gguf(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_doubled_and_unusable_names(tmp_path: Path) -> None:
    body = text("x") + value_bytes(1)
    assert "is there twice" in str(refusal(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + body * 2))
    assert "a name of 0 characters" in str(refusal(tmp_path, raw_key("", value_bytes(1))))
    assert "not valid UTF-8" in str(refusal(tmp_path, raw_key(b"\xff\xfe", value_bytes(1))))
    assert "two tensors called 'norm'" in str(
        refusal(tmp_path, build_gguf({}, [TinyTensor("norm", (8,), 0, bytes(32))] * 2))
    )
    assert "a name of 65 bytes" in str(
        refusal(tmp_path, build_gguf({}, [TinyTensor("n" * 65, (8,), 0, bytes(32))]))
    )


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    assert "key 'x' is not valid UTF-8" in str(refusal(tmp_path, build_gguf({"x": b"\xff"})))
    assert "key 'x' holds text that is not valid UTF-8" in str(
        refusal(tmp_path, build_gguf({"x": ["a", b"\xff"]}))
    )


def test_unknown_value_types(tmp_path: Path) -> None:
    assert "key 'x' has the unknown value type 99" in str(
        refusal(tmp_path, raw_key("x", struct.pack("<I", 99)))
    )
    nested = struct.pack("<IIQ", ARRAY, ARRAY, 1) + bytes(32)
    assert "key 'x' holds arrays of arrays" in str(refusal(tmp_path, raw_key("x", nested)))


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (TinyTensor("t", SHAPE, 99, bytes(512)), "tensor 't' has the unknown type 99"),
        (TinyTensor("t", SHAPE, 31, bytes(512)), "tensor 't' has the retired type Q4_0_4_4"),
        (
            TinyTensor("t", (4, 33), 2, bytes(512)),
            "rows of 33 weights, which Q4_0 cannot hold (blocks of 32)",
        ),
        (
            TinyTensor("t", (4, 288), 12, bytes(4096)),
            "rows of 288 weights, which Q4_K cannot hold (blocks of 256)",
        ),
        (TinyTensor("t", (0, 32), 0, bytes(512)), "tensor 't' has no elements"),
        (TinyTensor("t", (), 0, bytes(512)), "tensor 't' has 0 dimensions"),
        (TinyTensor("t", (1, 1, 1, 1, 8), 0, bytes(512)), "tensor 't' has 5 dimensions"),
        (TinyTensor("t", (8,), 0, bytes(512), offset=8), "does not start at a multiple of 32 bytes"),
        (TinyTensor("t", (8,), 0, bytes(512), offset=1 << 63), "tensor 't' reaches to byte"),
    ],
)
def test_bad_tensors(tmp_path: Path, tensor: TinyTensor, says: str) -> None:
    assert says in str(refusal(tmp_path, build_gguf(KEYS, [tensor])))


def test_overlapping_tensors(tmp_path: Path) -> None:
    tensors = [TinyTensor("a", (16,), 0, bytes(64)), TinyTensor("b", (16,), 0, bytes(64), offset=32)]
    assert "tensors 'a' and 'b' overlap" in str(refusal(tmp_path, build_gguf(KEYS, tensors)))


@pytest.mark.parametrize("alignment", [0, 33, "32"])
def test_bad_alignment(tmp_path: Path, alignment: object) -> None:
    says = str(refusal(tmp_path, build_gguf({"general.alignment": alignment})))
    assert "key 'general.alignment'" in says


def test_a_part_of_a_split_model(tmp_path: Path) -> None:
    error = refusal(tmp_path, build_gguf({"split.count": 3, "split.no": 0}))
    assert "one of 3 parts" in str(error)
    assert "llama-gguf-split --merge" in error.hint


def test_names_from_the_file_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    says = str(refusal(tmp_path, build_gguf({}, [TinyTensor("\x1b]52;c;x\x07\u202e", (8,), 99)])))
    assert says.isprintable()


@given(st.integers(0, len(GOOD) * 8 - 1), st.integers(0, len(GOOD) * 8 - 1))
def test_flipped_bits_are_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, first: int, second: int
) -> None:
    content = bytearray(GOOD)
    for bit in (first, second):
        content[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.getbasetemp() / "flipped.gguf"
    path.write_bytes(content)
    try:
        read_all(path)
    except ModelError as error:
        assert str(error).isprintable()
        assert error.hint


@given(st.binary(max_size=400))
def test_any_bytes_behind_the_magic(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + tail)
    with pytest.raises(ModelError):
        read_all(path)
