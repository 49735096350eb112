"""Which files are text, and about what they cost, by their first bytes."""

import os
from pathlib import Path

import pytest

from ebbtide.app.completing import MOST_OPENED, FileCosts
from ebbtide.app.files.listing import ListedFile
from ebbtide.app.files.peek import HEAD_BYTES, Peeks
from ebbtide.app.token_counts import TokenCounts
from ebbtide.app.token_rate import TokenRate, usual_tokens

NUMBERS = "".join(f"{n * 7919} {n}\n" for n in range(20_000))


@pytest.mark.parametrize(
    ("name", "content", "is_text"),
    [
        ("a.py", b"x = 1\n", True),
        ("empty", b"", True),
        ("utf8", "Größe".encode(), True),
        ("core", b"\x7fELF\2\1\1\0\0", False),
        ("late", b"x" * (HEAD_BYTES - 1) + b"\0", False),
        ("picture.PNG", b"no NUL in it", False),
        ("model.gguf", b"GGUF", False),
        ("notes.tar.gz", b"\x1f\x8b", False),
    ],
)
def test_text_or_not(tmp_path: Path, name: str, content: bytes, is_text: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert Peeks().is_text(tmp_path / name) is is_text


def test_what_is_no_file_or_cannot_be_read_is_no_text_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nobody", "pipe", "."):
        assert not Peeks().is_text(tmp_path / name) and Peeks().text(tmp_path / name) is None


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path, peeks = tmp_path / "a.txt", Peeks()
    path.write_text("one")
    assert [peeks.text(path) for _ in range(3)] == ["one"] * 3
    assert peeks.opened == 1
    path.write_text("another")
    assert peeks.text(path) == "another"
    path.write_bytes(b"\0")
    assert peeks.text(path) is None


def test_the_cost_of_a_file_is_judged_by_its_head(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text(NUMBERS)
    assert Peeks().usual_tokens(path) == pytest.approx(usual_tokens(NUMBERS), rel=0.2)
    assert usual_tokens(NUMBERS) > 0.9 * len(NUMBERS)


def test_a_list_offers_text_files_only_and_opens_few(tmp_path: Path) -> None:
    for number in range(3 * MOST_OPENED):
        (tmp_path / f"x{number:03}").write_bytes(b"\0")
    for name in ("x.py", "x.png", "y.py"):
        (tmp_path / name).write_text("x = 1\n")
    files = [ListedFile(path.name, path.stat().st_size) for path in sorted(tmp_path.iterdir())]
    costs = FileCosts(tmp_path, TokenCounts(lambda command: None, lambda: 1, TokenRate()))
    assert [row.text for row in costs.completions("see @x", lambda: files).rows] == ["@x.py "]
    assert costs._peeks.opened <= MOST_OPENED
    assert [row.text for row in costs.completions("see @y", lambda: files).rows] == ["@y.py ", "@x.py "]
