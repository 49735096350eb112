"""A file that is no GGUF: what it seems to be, and what to do, by each command that takes a model."""

import io
import json
import struct
import zipfile
from pathlib import Path

import pytest

from ebbtide.app.file_kinds import folder_kind, refuse_other_kinds
from ebbtide.engine.errors import ModelError
from tests.helpers.app_types import Cli
from tests.helpers.tiny_models import write_tiny

HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4294967296\n"


def zipped(name: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, b"x")
    return data.getvalue()


FILES = {
    "m.gguf, safetensors": (struct.pack("<Q", len(HEADER)) + HEADER + bytes(4), "safetensors", "convert_hf"),
    "m.pth, PyTorch": (zipped("archive/data.pkl"), "a PyTorch checkpoint", "convert_hf"),
    "m.zip, zip": (zipped("m.gguf"), "a ZIP archive", "Unpack it"),
    "m.gguf, gzip": (b"\x1f\x8b\x08\0", "a gzip archive", "Unpack it"),
    "m.gguf, page": (b"\n<!DOCTYPE html><html>", "a web page", "Download the file itself"),
    "m.gguf, page in capitals": (b"<HTML><BODY>404", "a web page", "Download the file itself"),
    "m.gguf, answer": (b'{"error": "Repository not found"}', "a server's answer", "log-in or a token"),
    "m.gguf, pointer": (POINTER, "a Git LFS pointer to a file of 4.0 GiB", "git lfs pull"),
    "m.gguf, holes": (bytes(10_000), "a download that was not finished", "Download it again"),
    "m.gguf, old": (b"tjgg\1\0\0\0", "before GGUF", "Get a GGUF"),
    "m.txt, text": ("Größe\n".encode() * 2000, "a text file", "Give the path of a .gguf file"),
    "m.gguf, noise": (b"\xff\xfe\x00\x17\x99" * 9, "a file of another kind", "Give the path"),
    "m.gguf, short": (b"GG\xff", "a file of another kind", "Give the path"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_it_seems_to_be_and_what_to_do(tmp_path: Path, name: str) -> None:
    content, words, remedy = FILES[name]
    path = tmp_path / name.partition(",")[0]
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        refuse_other_kinds(path)
    assert f"{path.name} is not a GGUF file: it seems to be " in str(caught.value)
    assert words in str(caught.value) and remedy in caught.value.hint and caught.value.exit_code == 3


@pytest.mark.parametrize("command", ["show", "doctor", "run", "pack", "bench"])
def test_every_command_says_it_and_starts_nothing(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(POINTER)
    result = cli(command, str(path), stdin="hello")
    assert result.code == 3 and result.out == ""
    assert "Git LFS pointer" in result.err and "git lfs pull" in result.err


def test_an_empty_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.touch()
    result = cli("doctor", str(path))
    assert result.code == 3 and "m.gguf is empty" in result.err and "Download it again" in result.err


def test_a_download_that_was_cut_short(cli: Cli, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    path.write_bytes(path.read_bytes()[:-1000])
    result = cli("show", str(path))
    assert result.code == 3 and "cut short" in result.err and "Download the file again" in result.err


def test_a_broken_file_can_be_removed_all_the_same(cli: Cli, home: Path) -> None:
    path = home / "cache" / "models" / "m.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(POINTER)
    assert cli("rm", "m").code == 0 and not path.exists()


@pytest.mark.parametrize(
    ("names", "words", "remedy"),
    [
        (["a.gguf", "README"], "one model in it", "a.gguf"),
        (["a.gguf", "b.gguf"], "several models", "a.gguf, b.gguf"),
        (["config.json", "model.safetensors"], "Transformers", "convert_hf"),
        ([], "without any .gguf", "ebbtide ls"),
    ],
)
def test_a_folder(cli: Cli, tmp_path: Path, names: list[str], words: str, remedy: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"GGUF")
    result = cli("show", str(folder))
    assert result.code == 3 and words in result.err and remedy in result.err
    assert words in folder_kind(folder).words
