"""What set-up does on a first start, a second start, and after a change."""

from collections.abc import Callable
from pathlib import Path

import build_kernels
import pytest
import setup_steps
import setup_torch
from setup_forecast import first_start
from setup_progress import Progress
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
    for name in [
        *setup_steps.INPUTS,
        "assets/starter/manifest.json",
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("packaging/*.py")),
    ]:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(setup_steps, "ROOT", tmp_path)
    monkeypatch.setattr(setup_steps, "fingerprint", lambda: fingerprint(tmp_path))
    monkeypatch.setattr(Venv, "is_usable", lambda venv: record.usable)
    monkeypatch.setattr(Venv, "create", lambda venv: record.create(venv))
    monkeypatch.setattr(Venv, "pip", lambda venv, *arguments, **_: record.pip(*arguments))
    monkeypatch.setattr(setup_torch, "install", lambda venv: record.note("torch"))
    monkeypatch.setattr(setup_steps, "compile_kernels", lambda progress: record.note("kernels"))
    monkeypatch.setattr(build_kernels, "to_compile", lambda root: 0)
    monkeypatch.setattr(setup_torch, "has_nvidia_driver", lambda: False)
    monkeypatch.setenv("EBBTIDE_HOME", str(tmp_path / "home"))
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


Begins = Callable[[int], None]


def test_kernels_without_a_compiler_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    setup_steps.compile_kernels(Progress(1), lambda begins, compiled: None)
    assert "install one" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "words"), [(1, "1 file "), (7, "7 files ")])
def test_while_kernels_are_compiled_it_says_so(
    capsys: pytest.CaptureFixture[str], count: int, words: str
) -> None:
    progress, said = Progress(4), []

    def build(begins: Begins, compiled: Begins) -> Path:
        begins(count)
        for done in range(1, count + 1):
            compiled(done)
            progress.tick()
        said.append(capsys.readouterr().err)
        return Path("library.so")

    setup_steps.compile_kernels(progress, build)
    assert f"step 1 of 4: compiling the C++ kernels, {words}" in said[0] and "minute" in said[0]
    assert ("so far: 1 of 7 compiled" in said[0]) == (count == 7)
    assert "so far: linking" in said[0]


def test_kernels_that_are_compiled_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    setup_steps.compile_kernels(Progress(1), lambda begins, compiled: Path("library.so"))
    assert capsys.readouterr().err == ""


def test_kernels_that_do_not_compile_are_a_failure() -> None:
    def fail(begins: Begins, compiled: Begins) -> Path | None:
        raise build_kernels.BuildError("linear.cpp:3: error")

    with pytest.raises(SetupError, match=r"linear\.cpp:3"):
        setup_steps.compile_kernels(Progress(1), fail)


def test_before_anything_begins_a_first_start_says_what_it_takes(
    recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(with_tests=False)
    said = capsys.readouterr().err.splitlines()
    assert "minutes" in said[0] and "1.0 GiB of disk" in said[1] and "are free" in said[1]
    assert any("a download of 89 MiB" in line and "the model 692 MiB" in line for line in said)
    steps = [line for line in said if "step " in line]
    assert [line.split(":")[1] for line in steps] == [" step 1 of 3", " step 2 of 3", " step 3 of 3"]
    assert any("set-up complete in 0 s" in line for line in said)
    prepare(with_tests=False)
    assert capsys.readouterr().err == ""


def test_the_forecast_knows_tests_cards_and_full_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBTIDE_HOME", str(tmp_path))
    chat = first_start(ROOT, with_tests=False, cuda=False, free=lambda folder: 1 << 29)
    assert any("too little" in line for line in chat) and str(tmp_path / "cache") in chat[-1]
    tests = first_start(ROOT, with_tests=True, cuda=True, free=lambda folder: 1 << 40)
    assert len(tests) == 2 and "8.2 GiB" in tests[1]
    (tmp_path / "cache/starter").mkdir(parents=True)
    (tmp_path / "cache/starter/starter-Q8_0.gguf").touch()
    assert len(first_start(ROOT, with_tests=False, cuda=False, free=lambda folder: 1 << 40)) == 2


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
