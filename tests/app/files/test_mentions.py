"""`@path`: what counts as a file's name, what is sent, and what is refused by name."""

import os
from pathlib import Path

import pytest

from ebbtide.app.files.mentions import MOST_BYTES, SentFile, find_mentions, split_files, with_files
from ebbtide.engine.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "with space.md").write_text("has ```` fences")
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("look at @a.py", ["a.py"]),
        ("(@a.py), @a.py.", ["a.py"]),
        ("@./a.py", ["./a.py"]),
        ('see @"with space.md"!', ["with space.md"]),
        ("mail me@a.py", []),
        ("@nobody said @property @ @. @~", []),
        ("@" + "x" * 5000, []),
        ("@a\0b", []),
    ],
)
def test_what_is_a_mention(folder: Path, text: str, names: list[str]) -> None:
    assert [mention.name for mention in find_mentions(text, folder)] == names


def test_files_follow_the_question(folder: Path) -> None:
    assert with_files("explain @a.py", folder) == "explain @a.py\n\nFile a.py:\n```py\nx = 1\n```"
    assert with_files("no files", folder) == "no files"


def test_a_fence_in_a_file_does_not_end_its_block(folder: Path) -> None:
    assert with_files('@"with space.md"', folder).endswith("`````md\nhas ```` fences\n`````")


def test_refusals_name_the_file(folder: Path) -> None:
    (folder / "image.png").write_bytes(b"\x89PNG\0\0")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "huge.txt").write_bytes(b"x" * (MOST_BYTES + 1))
    os.mkfifo(folder / "pipe")
    for name, reason in {
        "image.png": "is binary",
        "latin.txt": "not text in UTF-8",
        "huge.txt": "at most",
        "sub": "is a folder",
        "pipe": "not a regular file",
    }.items():
        with pytest.raises(UsageError, match=f"@{name} .*{reason}"):
            with_files(f"see @{name}", folder)


def test_a_file_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"@a\.py cannot be read: Permission denied"):
        with_files("@a.py", folder)


def test_control_characters_in_a_name_stay_out_of_the_message(folder: Path) -> None:
    (folder / "a\x1b[2Jb").mkdir()
    with pytest.raises(UsageError) as caught:
        with_files("@a\x1b[2Jb", folder)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "x = 1", "x = 1\n", "```\ncode\n```\n", "a\n\nFile b.py:\n```py\n"])
def test_files_are_told_from_what_was_written(folder: Path, content: str) -> None:
    (folder / "a.py").write_text(content)
    (folder / "b.txt").write_text("b\n")
    question = "see @a.py and @b.txt"
    written, files = split_files(with_files(question, folder))
    end = "" if content.endswith("\n") or not content else "\n"
    assert (written, files) == (question, [SentFile("a.py", content + end), SentFile("b.txt", "b\n")])


@pytest.mark.parametrize(
    "text", ["", "a", "see\n\nFile a.py:\n```py\nx\n```\n\nand then?", "see\n\nFile a.py:\n```py\nx"]
)
def test_what_the_person_wrote_is_no_file(text: str) -> None:
    assert split_files(text) == (text, [])
