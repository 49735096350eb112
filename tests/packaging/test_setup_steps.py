"""What set-up does on a first start, a second start, and after a change."""

from collections.abc import Callable
from pathlib import Path

import build_kernels
import pytest
import setup_steps
import setup_torch
from setup_steps import AMX_CMAKE_ARGS, Stamp, baseline_variables, fingerprint, prepare, read_cpu_flags
from setup_venv import PipError, SetupError, Venv

ROOT = Path(__file__).parents[2]


class Recorder:
    """Stands for everything that set-up would run; `done` lists it in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.usable = False
        self.fails_at = ""

    def pip(self, *arguments: str) -> None:
        self.note(f"pip {arguments[-1].removeprefix(str(setup_steps.ROOT))}")

    def note(self, text: str) -> None:
        if self.fails_at and self.fails_at in text:
            raise PipError(f"{text} failed", "log")
        self.done.append(text)

    def create(self, venv: Venv) -> None:
        venv.folder.mkdir(exist_ok=True)
        self.usable = True
        self.note("create")

    def take(self) -> list[str]:
        """What was done since the last call."""
        taken, self.done = self.done, []
        return taken


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Set-up of a copy of this checkout's inputs, with everything slow recorded in place of run."""
    record = Recorder()
    for name in [*setup_steps.INPUTS, *(str(path.relative_to(ROOT)) for path in ROOT.glob("packaging/*.py"))]:
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(setup_steps, "ROOT", tmp_path)
    monkeypatch.setattr(setup_steps, "fingerprint", lambda: fingerprint(tmp_path))
    monkeypatch.setattr(Venv, "is_usable", lambda venv: record.usable)
    monkeypatch.setattr(Venv, "create", lambda venv: record.create(venv))
    monkeypatch.setattr(Venv, "pip", lambda venv, *arguments, **_: record.pip(*arguments))
    monkeypatch.setattr(setup_torch, "install", lambda venv: record.note("torch"))
    monkeypatch.setattr(setup_steps, "compile_kernels", lambda: record.note("kernels"))
    monkeypatch.setattr(build_kernels, "find_compiler", lambda: build_kernels.Compiler(("c++",), "1"))
    return record


BASELINE = "pip llama-cpp-python==0.3.36"
FIRST_CHAT = ["create", "torch", "kernels", "pip "]
FIRST_TEST = ["create", "torch", "kernels", "pip [test]", BASELINE]


def test_a_first_and_a_second_chat(recorder: Recorder) -> None:
    prepare(with_tests=False)
    assert recorder.take() == FIRST_CHAT
    prepare(with_tests=False)
    assert recorder.take() == ["kernels"]


def test_a_first_and_a_second_test_run(recorder: Recorder) -> None:
    prepare(with_tests=True)
    assert recorder.take() == FIRST_TEST
    prepare(with_tests=True)
    assert recorder.take() == ["kernels"]


def test_a_test_setup_serves_chat_but_not_the_reverse(recorder: Recorder) -> None:
    prepare(with_tests=False)
    recorder.take()
    prepare(with_tests=True)
    assert recorder.take() == FIRST_TEST[1:]
    prepare(with_tests=False)
    assert recorder.take() == ["kernels"]


@pytest.mark.parametrize("name", ["pyproject.toml", "packaging/constraints.txt", "packaging/start.py"])
def test_a_changed_input_sets_up_again(recorder: Recorder, tmp_path: Path, name: str) -> None:
    prepare(with_tests=False)
    recorder.take()
    with (tmp_path / name).open("a") as file:
        file.write("\n# changed\n")
    prepare(with_tests=False)
    assert recorder.take() == FIRST_CHAT[1:]


@pytest.mark.parametrize("step", ["torch", "pip "])
def test_a_failed_step_is_done_again(recorder: Recorder, step: str) -> None:
    recorder.fails_at = step
    with pytest.raises(SetupError):
        prepare(with_tests=False)
    recorder.take()
    recorder.fails_at = ""
    prepare(with_tests=False)
    assert recorder.take() == FIRST_CHAT[1:]


def test_pip_killed_in_a_finished_environment_starts_afresh(recorder: Recorder) -> None:
    venv = prepare(with_tests=False)
    recorder.take()
    venv.marker.touch()
    recorder.usable = False
    prepare(with_tests=False)
    assert recorder.take() == FIRST_CHAT


def test_without_the_oracle_set_up_goes_on(recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    recorder.fails_at = "llama-cpp-python"
    prepare(with_tests=True)
    assert "comparison tests will be left out" in capsys.readouterr().err
    recorder.take()
    prepare(with_tests=True)
    assert recorder.take() == ["kernels"]


def test_without_a_compiler_the_oracle_is_not_tried(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_kernels, "find_compiler", lambda: None)
    prepare(with_tests=True)
    assert recorder.take() == FIRST_TEST[:-1]
    assert "llama.cpp needs a C++ compiler" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["", "{", "[1]"])
def test_a_damaged_stamp_is_no_stamp(tmp_path: Path, damage: str) -> None:
    stamp = Stamp(tmp_path / "stamp.json")
    stamp.path.write_text(damage)
    assert stamp.read() == {}
    stamp.set("chat", "a")
    stamp.set("test", "b")
    assert stamp.read() == {"chat": "a", "test": "b"}


def test_kernels_without_a_compiler_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    setup_steps.compile_kernels(lambda begins: None)
    assert "install one" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "words"), [(1, "(1 file;"), (7, "(7 files;")])
def test_while_kernels_are_compiled_it_says_so(
    capsys: pytest.CaptureFixture[str], count: int, words: str
) -> None:
    before = ""

    def build(begins: Callable[[int], None]) -> Path:
        nonlocal before
        begins(count)
        before = capsys.readouterr().err
        return Path("library.so")

    setup_steps.compile_kernels(build)
    assert "compiling the C++ kernels" in before and words in before and "minute" in before
    assert "done in 0 s" in capsys.readouterr().err


def test_kernels_that_are_compiled_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    setup_steps.compile_kernels(lambda begins: Path("library.so"))
    assert capsys.readouterr().err == ""


def test_kernels_that_do_not_compile_are_a_failure() -> None:
    def fail(begins: Callable[[int], None]) -> Path | None:
        raise build_kernels.BuildError("linear.cpp:3: error")

    with pytest.raises(SetupError, match=r"linear\.cpp:3"):
        setup_steps.compile_kernels(fail)


def test_machines_with_amx_build_llama_cpp_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    assert baseline_variables("fpu avx512f amx_bf16 amx_tile amx_int8") == {"CMAKE_ARGS": AMX_CMAKE_ARGS}
    assert "-DGGML_NATIVE=OFF" in AMX_CMAKE_ARGS
    assert "AMX" not in AMX_CMAKE_ARGS
    assert baseline_variables("fpu avx2 avx512f") == {}
    monkeypatch.setenv("CMAKE_ARGS", "-DMINE=1")
    assert baseline_variables("amx_tile") == {}


def test_cpu_flags_are_read_from_the_first_core(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("model name\t: X\nflags\t\t: fpu avx2\n\nflags\t\t: other\n")
    assert read_cpu_flags(file).split() == ["fpu", "avx2"]
    assert read_cpu_flags(tmp_path / "none") == ""
