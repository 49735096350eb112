"""Standard input as part of a prompt: what is read, and what never is."""

import io
import os
import pty
import sys
from pathlib import Path

import pytest

from ebbtide.app import piped
from ebbtide.app.piped import piped_text
from ebbtide.engine.errors import UsageError


def test_nothing_is_read_from_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"typed\n")
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        assert piped_text() == ""
        assert terminal.readline() == "typed\n", "it waits there for whoever wants it"
    os.close(ours)


def test_a_closed_standard_input_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert piped_text() == ""


def test_what_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with os.fdopen(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT), "rb") as written_only:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(written_only))
        with pytest.raises(UsageError, match="Standard input cannot be read"):
            piped_text()


def test_a_pipe_in_which_nothing_comes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    said: list[str] = []

    def note(text: str) -> None:
        said.append(text)
        os.write(writing, b"late")
        os.close(writing)

    monkeypatch.setattr(piped, "PATIENCE_S", 0.0)
    monkeypatch.setattr(piped, "note", note)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert piped_text() == "late"
    assert len(said) == 1 and "</dev/null" in said[0]
