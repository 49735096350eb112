"""`$EDITOR`: found, missing, failing; the text comes back as it was saved."""

import shlex
import sys
from pathlib import Path

import pytest

from ebbtide.app.editor import edit_text, editor_command
from ebbtide.engine.errors import UsageError


def script(tmp_path: Path, body: str) -> list[str]:
    """An editor that runs `body` with the file's `path`."""
    path = tmp_path / "editor.py"
    path.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[-1])\n{body}\n")
    return [sys.executable, str(path)]


def test_the_saved_text_comes_back(tmp_path: Path) -> None:
    command = script(tmp_path, "path.write_text(path.read_text() + ' and more\\n')")
    assert edit_text("a draft", command) == "a draft and more"


@pytest.mark.parametrize("body", ["sys.exit(1)", "path.unlink()", "path.write_bytes(b'\\xff')"])
def test_a_failing_editor_is_said(tmp_path: Path, body: str) -> None:
    with pytest.raises(UsageError):
        edit_text("a draft", script(tmp_path, body))


def test_visual_wins_and_arguments_are_kept() -> None:
    python = shlex.quote(sys.executable)
    command = editor_command({"VISUAL": f"{python} -u --x 'a b'", "EDITOR": "nothing"})
    assert command == [sys.executable, "-u", "--x", "a b"]


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "No editor"),
        ({"EDITOR": " "}, "No editor"),
        ({"EDITOR": "no-such-editor"}, "no-such-editor"),
        ({"EDITOR": "a 'b"}, "not a command"),
    ],
)
def test_what_is_missing_is_said(environment: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        editor_command(environment)
