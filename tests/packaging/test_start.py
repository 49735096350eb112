"""`packaging/start.py`: what it accepts, when it refuses, what it hands over to."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import setup_steps
import start
from setup_venv import SetupError, Venv

ROOT = Path(__file__).parents[2]
COMMANDS = ["python3 packaging/start.py chat", "python3 packaging/start.py test"]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that start.py would have become."""
    commands: list[list[str]] = []

    def record(command: list[str]) -> int:
        commands.append(command)
        return 0

    monkeypatch.setattr(start, "launch", record)
    return commands


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bool]:
    """Replaces set-up; holds the `with_tests` of each call."""
    calls: list[bool] = []

    def prepare(*, with_tests: bool) -> Venv:
        calls.append(with_tests)
        return Venv(tmp_path / ".venv", tmp_path / "constraints.txt")

    monkeypatch.setattr(setup_steps, "prepare", prepare)
    return calls


def test_the_readmes_first_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    in_code, commands = False, []
    for line in lines:
        if line.startswith("```"):
            in_code = not in_code
        elif in_code and line.strip():
            commands.append(line.partition("#")[0].strip())
    assert commands[:2] == COMMANDS


def test_chat_becomes_ebbtide(launched: list[list[str]], prepared: list[bool], tmp_path: Path) -> None:
    assert start.main(["chat", "--budget", "40%"]) == 0
    assert prepared == [False]
    assert launched == [[str(Venv(tmp_path / ".venv", tmp_path).program("ebbtide")), "--budget", "40%"]]


def test_test_becomes_pytest_in_the_checkout(
    launched: list[list[str]], prepared: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert start.main(["test", "tests/packaging", "-q"]) == 0
    assert prepared == [True]
    assert launched[0][1:] == ["-m", "pytest", "tests/packaging", "-q"]
    assert Path.cwd() == ROOT


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["tset"], 2), (["--help"], 0)])
def test_usage(
    arguments: list[str], code: int, launched: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start.main(arguments) == code
    assert capsys.readouterr().err.startswith("usage: ")
    assert launched == []


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 4), (4, 0, 0)])
def test_new_enough_pythons_pass(version: tuple[int, ...]) -> None:
    start.check_python(version)


@pytest.mark.parametrize("version", [(3, 8, 19), (3, 10, 14)])
def test_older_pythons_are_named(version: tuple[int, ...]) -> None:
    with pytest.raises(SystemExit, match=rf"needs Python 3\.11 or newer; this is Python 3\.{version[1]}"):
        start.check_python(version)


def test_start_parses_on_an_old_python() -> None:
    ast.parse((ROOT / "packaging/start.py").read_text(), feature_version=(3, 7))


def test_a_failed_setup_says_what_and_what_to_do(
    launched: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*, with_tests: bool) -> Venv:
        raise SetupError("The disk is full.", "Make room.")

    monkeypatch.setattr(setup_steps, "prepare", fail)
    assert start.main(["chat"]) == 1
    assert capsys.readouterr().err == "error: The disk is full.\nMake room.\n"
    assert launched == []


def test_an_interrupt_says_how_to_go_on(
    launched: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*, with_tests: bool) -> Venv:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup_steps, "prepare", interrupt)
    assert start.main(["test"]) == 130
    assert "same command goes on" in capsys.readouterr().err
    assert launched == []


def test_it_needs_the_standard_library_only() -> None:
    """`-S -I` hides every installed package."""
    path = str(ROOT / "packaging")
    code = f"import sys; sys.path.insert(0, {path!r}); import start, setup_steps, build_kernels"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
