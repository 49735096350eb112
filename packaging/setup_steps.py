"""The steps of set-up, and the stamp that lets a second start skip them."""

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import build_kernels
import setup_forecast
import setup_torch
from setup_progress import Progress
from setup_venv import PipError, SetupError, Venv

__all__ = ["ROOT", "SetupError", "prepare"]

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ("pyproject.toml", "packaging/constraints.txt", "packaging/hatch_build.py")
# The native build of llama.cpp crashes on machines with AMX: its worker threads lack the tile permission.
AMX_CMAKE_ARGS = " ".join(
    ["-DGGML_NATIVE=OFF", "-DGGML_AVX_VNNI=ON"]
    + [f"-DGGML_AVX512{part}=ON" for part in ("", "_VBMI", "_VNNI", "_BF16")]
)


class Stamp:
    """What this checkout's environment was last set up with, as a small JSON file inside it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """The stamp's entries; none when there is no stamp or it is damaged."""
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def set(self, name: str, value: str) -> None:
        """Writes one entry, atomically."""
        scratch = self.path.with_suffix(".part")
        scratch.write_text(json.dumps({**self.read(), name: value}, indent=1), encoding="utf-8")
        scratch.replace(self.path)


def fingerprint(root: Path = ROOT) -> str:
    """Hash of everything that decides what the environment holds: pins, set-up scripts, Python, and place."""
    scripts = [
        f"packaging/{name}" for name in ("start.py", "setup_steps.py", "setup_venv.py", "setup_torch.py")
    ]
    state = hashlib.sha256(f"{sys.version}\0{root}".encode())
    for name in (*INPUTS, *scripts):
        state.update(hashlib.sha256((root / name).read_bytes()).digest())
    return state.hexdigest()


def prepare(*, with_tests: bool) -> Venv:
    """Brings the environment up to date and returns it; does next to nothing when it already is.

    Raises SetupError. Safe to interrupt at any point: what is finished is kept, what is not is done again.
    """
    progress = Progress(1)
    venv = Venv(ROOT / ".venv", ROOT / "packaging/constraints.txt", progress)
    stamp, key = Stamp(venv.folder / "ebbtide-setup.json"), fingerprint()
    level = "test" if with_tests else "chat"
    fresh = key in (stamp.read().get("test"), stamp.read().get(level)) and not venv.marker.exists()
    if not fresh:
        usable = venv.is_usable()
        progress.total = count_steps(usable=usable, with_tests=with_tests)
        begin(progress, usable=usable, with_tests=with_tests)
        if not usable:
            with progress.step(f"making {venv.folder}"):
                venv.create()
        with progress.step("choosing and installing a build of torch"):
            setup_torch.install(venv)
    compile_kernels(progress)
    if not fresh:
        install_ebbtide(venv, with_tests=with_tests)
        stamp.set(level, key)
        progress.end()
        progress.say(f"  pip's output is in {venv.log}")
    return venv


def count_steps(*, usable: bool, with_tests: bool) -> int:
    """How many steps there will be: the environment, torch, kernels, ebbtide itself, the tests' oracle."""
    with_oracle = with_tests and build_kernels.find_compiler() is not None
    return 2 + (not usable) + (build_kernels.to_compile(ROOT) > 0) + with_oracle


def begin(progress: Progress, *, usable: bool, with_tests: bool) -> None:
    """Says what is ahead, before any of it."""
    if usable:
        progress.say("bringing the environment up to date: mostly under two minutes")
        return
    cuda = sys.platform == "linux" and setup_torch.has_nvidia_driver()
    for line in setup_forecast.first_start(ROOT, with_tests=with_tests, cuda=cuda):
        progress.say(line)


def compile_kernels(progress: Progress, build: Callable[..., Path | None] = build_kernels.build) -> None:
    """Compiles the C++ kernels if their sources changed, as a step; without a compiler, says what it costs.

    `build` is called as `build_kernels.build` with `begins` and `compiled`.
    """
    with ExitStack() as step:
        total = 0

        def begins(count: int) -> None:
            nonlocal total
            total = count
            files = "1 file" if count == 1 else f"{count} files"
            title = f"compiling the C++ kernels, {files}"
            step.enter_context(progress.step(title, "about a minute on two cores"))

        def compiled(done: int) -> None:
            progress.detail(f"{done} of {total} compiled" if done < total else "linking")

        try:
            library = build(begins=begins, compiled=compiled)
        except build_kernels.BuildError as error:
            remedy = "Choose another compiler, as in CXX=clang++, and start again."
            raise SetupError(f"Compiling the C++ kernels failed:\n{error}", remedy) from error
    if library is None:
        progress.say("no C++ compiler found: the much slower torch kernels will be used")
        progress.say("  install one (Debian: g++, macOS: xcode-select --install) and start again")


def install_ebbtide(venv: Venv, *, with_tests: bool) -> None:
    """Installs this checkout and its libraries, and what its tests need."""
    what = "ebbtide, its libraries, and what its tests need" if with_tests else "ebbtide and its libraries"
    expected = "two to four minutes" if with_tests else "one to two minutes"
    with venv.progress.step(f"installing {what}", expected):
        venv.pip("-e", f"{ROOT}[test]" if with_tests else str(ROOT))
    if with_tests:
        install_baseline(venv)


def baseline_variables(cpu_flags: str) -> dict[str, str]:
    """Environment for building llama.cpp on a machine with these CPU flags; the user's CMAKE_ARGS win."""
    if "amx_tile" in cpu_flags.split() and "CMAKE_ARGS" not in os.environ:
        return {"CMAKE_ARGS": AMX_CMAKE_ARGS}
    return {}


def read_cpu_flags(path: Path = Path("/proc/cpuinfo")) -> str:
    """CPU feature flags on Linux, space-separated; empty elsewhere."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")


def install_baseline(venv: Venv) -> None:
    """Tries to install llama.cpp, the tests' oracle; says so and goes on when that does not work."""
    if build_kernels.find_compiler() is None:
        venv.progress.say("llama.cpp needs a C++ compiler: its comparison tests will be left out")
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["baseline"]
    what = "building llama.cpp, the tests' oracle, from source"
    with venv.progress.step(what, "about five minutes on two cores"):
        try:
            venv.pip(*wanted, variables=baseline_variables(read_cpu_flags()))
        except PipError as error:
            venv.progress.say(f"  {error.what}")
            venv.progress.say(f"  its comparison tests will be left out. {error.remedy}")
