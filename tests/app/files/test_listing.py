"""Listing a project: .gitignore is honoured as git honours it."""

from pathlib import Path

from ebbtide.app.files.listing import list_files
from ebbtide.app.files.matching import match_files


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def names(folder: Path) -> set[str]:
    return {file.path for file in list_files(folder)}


def test_ignored_files_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b.log", "keep.log", "build/x", "src/c.py", "src/d.tmp", "src/gen/e", ".git/HEAD")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n")
    (tmp_path / "src" / ".gitignore").write_text("*.tmp\n/gen\n!c.py\n")
    assert names(tmp_path) == {".gitignore", "a.py", "keep.log", "src/.gitignore", "src/c.py"}


def test_rules_of_the_repository_around_a_folder_hold_in_it(tmp_path: Path) -> None:
    make(tmp_path, "sub/deep/a.py", "sub/deep/b.log", "sub/deep/c.tmp", ".git/HEAD", ".git/info/exclude")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".git/info/exclude").write_text("*.tmp\n")
    assert names(tmp_path / "sub" / "deep") == {"a.py"}


def test_outside_a_repository_rules_above_do_not_count(tmp_path: Path) -> None:
    make(tmp_path, "sub/b.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert names(tmp_path / "sub") == {"b.log"}


def test_a_limit_cuts_off_what_is_deep(tmp_path: Path) -> None:
    make(tmp_path, "z.py", "a/deep/x.py", "a/y.py")
    assert [file.path for file in list_files(tmp_path, 2)] == ["z.py", "a/y.py"]


def test_what_cannot_be_read_is_not_there(tmp_path: Path) -> None:
    assert list_files(tmp_path / "missing") == []
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\n")
    assert names(tmp_path) == {".gitignore"}


def test_the_likeliest_file_comes_first(tmp_path: Path) -> None:
    make(tmp_path, "app/session.py", "tests/app/test_session.py", "session/readme.md", "other.txt")
    files = list_files(tmp_path)
    assert [file.path for file in match_files("sess", files)] == [
        "session/readme.md",
        "app/session.py",
        "tests/app/test_session.py",
    ]
    assert [file.path for file in match_files("tatsp", files)] == ["tests/app/test_session.py"]
    assert match_files("zzz", files) == [] and len(match_files("", files)) == 4
