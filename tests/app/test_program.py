"""How the program is called again: by its name only where a shell finds this very one by it."""

import sys
from pathlib import Path

import pytest

from ebbtide.app import __main__
from ebbtide.app.program import program


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """The script of an environment."""
    script = tmp_path / "my env" / "bin" / "ebbtide"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


def test_on_the_path_its_name_is_enough(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(started.parent))
    monkeypatch.setattr(sys, "argv", [str(started)])
    assert program() == "ebbtide"


def test_else_it_is_called_by_its_place(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["my env/bin/ebbtide"])
    monkeypatch.setenv("PATH", "")
    assert program() == f"'{started}'"
    other = tmp_path / "other" / "ebbtide"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert program() == f"'{started}'", "another program has its name"


def test_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path(__main__.__file__).absolute())])
    assert program().endswith(" -m ebbtide.app")


def test_inside_another_program_it_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert program() == "ebbtide"
