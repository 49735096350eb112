"""The environment and its pip: interruptions, logs, announced downloads, a Python without venv."""

import importlib.util
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
import setup_venv
from setup_progress import Progress
from setup_venv import (
    PipError,
    SetupError,
    TooLargeError,
    Venv,
    download_mb,
    follow,
    missing_venv_remedy,
    pip_words,
)

PIP_LINES = [
    "Collecting torch==2.13.0",
    "  Downloading https://files.example/torch-2.13.0-cp311.whl (888.1 MB)",
]


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """An environment without pip, which is quick to make."""
    folder = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (tmp_path / "constraints.txt").touch()
    return Venv(folder, tmp_path / "constraints.txt")


def give_pip(venv: Venv, source: str) -> None:
    """Installs `source` as the environment's pip."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = Path(venv.answer("-c", code).strip()) / "pip"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "__main__.py").write_text(source)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PIP_LINES[1], ("torch-2.13.0-cp311.whl", 888.1)),
        ("Downloading torch-2.13.0-cp311.whl.metadata (30 kB)", ("torch-2.13.0-cp311.whl.metadata", 0.03)),
        ("Downloading big.whl (2.5 GB)", ("big.whl", 2500.0)),
        (PIP_LINES[0], None),
        ("Installing collected packages: torch", None),
    ],
)
def test_download_mb(line: str, expected: tuple[str, float] | None) -> None:
    assert download_mb(line) == (
        pytest.approx(expected) if expected is None else (expected[0], pytest.approx(expected[1]))
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (PIP_LINES[0], "looking for torch==2.13.0"),
        (PIP_LINES[1], "fetching torch (847 MiB)"),
        ("  Downloading click-8.5.1-py3-none-any.whl (107 kB)", "fetching click"),
        ("  Downloading click-8.5.1-py3-none-any.whl.metadata (3 kB)", ""),
        ("  Building wheel for llama-cpp-python (pyproject.toml): started", "building llama-cpp-python"),
        ("Building editable for ebbtide (pyproject.toml): started", "building ebbtide"),
        ("Installing collected packages: click, numpy", "unpacking 2 packages"),
        ("Installing collected packages: click", "unpacking 1 package"),
        ("Looking in indexes: https://index.example", ""),
        ("", ""),
    ],
)
def test_what_pip_is_doing(line: str, words: str) -> None:
    assert pip_words(line) == words


def test_an_environment_without_pip_is_not_usable(venv: Venv) -> None:
    assert not venv.is_usable()


def test_a_whole_environment_is_usable_until_pip_is_killed_in_it(venv: Venv) -> None:
    give_pip(venv, "")
    assert venv.is_usable()
    venv.marker.touch()
    assert not venv.is_usable()


def test_a_missing_environment_is_not_usable(tmp_path: Path) -> None:
    assert not Venv(tmp_path / "none", tmp_path).is_usable()


def test_create_replaces_a_broken_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        setup_venv, "MAKE_VENV", (*setup_venv.MAKE_VENV, "--without-pip")
    )  # pip takes long to copy
    venv = Venv(tmp_path / ".venv", tmp_path / "constraints.txt")
    (venv.folder / "bin").mkdir(parents=True)
    (venv.folder / "bin" / "python").write_text("broken")
    venv.create()
    give_pip(venv, "")
    assert venv.is_usable()


def test_pip_success_leaves_a_log_and_no_marker(venv: Venv) -> None:
    give_pip(venv, "import sys; print('arguments', *sys.argv[1:])")
    venv.pip("click")
    assert "arguments install" in venv.log.read_text()
    assert f"-c {venv.constraints} click" in venv.log.read_text()
    assert not venv.marker.exists()


def test_pip_failure_names_reason_and_log(venv: Venv) -> None:
    give_pip(venv, "import sys; print('ERROR: No space left on device'); sys.exit(1)")
    with pytest.raises(PipError, match="No space left on device") as caught:
        venv.pip("click")
    assert str(venv.log) in caught.value.remedy
    assert not venv.marker.exists()


def test_pip_gets_the_variables(venv: Venv) -> None:
    give_pip(venv, "import os; print('got', os.environ['CMAKE_ARGS'], os.environ['PIP_USER'])")
    venv.pip("x", variables={"CMAKE_ARGS": "-DA=1"})
    assert "got -DA=1 0" in venv.log.read_text()


def test_a_large_download_is_stopped_before_its_first_byte(tmp_path: Path) -> None:
    announced, fetched = PIP_LINES[1], tmp_path / "fetched"
    code = f"import time; print({announced!r}, flush=True); time.sleep(600); open({str(fetched)!r}, 'w')"
    with (tmp_path / "log").open("w") as log, pytest.raises(TooLargeError, match="847 MiB"):
        follow([sys.executable, "-c", code], {}, log, limit_mb=400, progress=Progress(1))
    assert not fetched.exists()


def test_what_pip_does_is_told_in_the_running_step(tmp_path: Path) -> None:
    stream = StringIO()
    progress = Progress(1, stream)
    code = f"print({PIP_LINES[1]!r}); print('Installing collected packages: torch')"
    with (tmp_path / "log").open("w") as log, progress.step("installing"):
        follow([sys.executable, "-c", code], {}, log, None, progress)
        progress.tick()
    assert "so far: unpacking 1 package\n" in stream.getvalue()


def test_an_allowed_download_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "log").open("w") as log:
        code, _ = follow(
            [sys.executable, "-c", f"print({PIP_LINES[1]!r})"], {}, log, limit_mb=None, progress=Progress(1)
        )
    assert code == 0
    assert "downloading torch-2.13.0-cp311.whl (847 MiB)" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_venv_names_the_package(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(SetupError) as caught:
        setup_venv.check_venv_module()
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}-venv" in caught.value.remedy


def test_debian_is_told_the_very_command() -> None:
    assert "sudo apt install python3.11-venv" in missing_venv_remedy((3, 11), True)
    assert "apt" not in missing_venv_remedy((3, 12), False)


def test_programs_lie_where_the_system_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = Venv(tmp_path, tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    assert venv.program("python") == tmp_path / "bin" / "python"
    monkeypatch.setattr(sys, "platform", "win32")
    assert venv.program("python") == tmp_path / "Scripts" / "python.exe"


def test_version_of_counts_complete_installations_only(venv: Venv) -> None:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    folder = Path(venv.answer("-c", code).strip()) / "thing-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: thing\nVersion: 1.2\n")
    assert venv.version_of("thing") == ""
    (folder / "INSTALLER").write_text("pip\n")
    assert venv.version_of("thing") == "1.2"
    assert venv.version_of("absent") == ""
