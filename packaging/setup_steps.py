"""The steps of set-up, and the stamp that lets a second start skip them."""

import hashlib
import json
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import build_kernels
import setup_torch
from setup_venv import PipError, SetupError, Venv, say

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


@contextmanager
def step(text: str) -> Iterator[None]:
    """Tells what is being done, and how long it took when it took a while."""
    say(text)
    begin = time.monotonic()
    yield
    if (seconds := time.monotonic() - begin) >= 1:
        say(f"  done in {seconds:.0f} s")


def prepare(*, with_tests: bool) -> Venv:
    """Brings the environment up to date and returns it; does next to nothing when it already is.

    Raises SetupError. Safe to interrupt at any point: what is finished is kept, what is not is done again.
    """
    venv = Venv(ROOT / ".venv", ROOT / "packaging/constraints.txt")
    stamp, key = Stamp(venv.folder / "ebbtide-setup.json"), fingerprint()
    level = "test" if with_tests else "chat"
    fresh = key in (stamp.read().get("test"), stamp.read().get(level)) and not venv.marker.exists()
    if not fresh:
        if not venv.is_usable():
            with step(f"making {venv.folder}"):
                venv.create()
        with step("choosing a build of torch"):
            setup_torch.install(venv)
    compile_kernels()
    if not fresh:
        with step(
            "installing ebbtide and its libraries"
            + (", and what its tests need (two to four minutes)" if with_tests else " (one to two minutes)")
        ):
            venv.pip("-e", f"{ROOT}[test]" if with_tests else str(ROOT))
        if with_tests:
            install_baseline(venv)
        stamp.set(level, key)
        say(f"set-up complete; pip's output is in {venv.log}")
    return venv


def compile_kernels(build: Callable[..., Path | None] = build_kernels.build) -> None:
    """Compiles the C++ kernels if their sources changed, and says so; without a compiler, says what it costs.

    `build` is called as `build_kernels.build` with `begins`.
    """
    began = 0.0

    def begins(count: int) -> None:
        nonlocal began
        began = time.monotonic()
        files = "1 file" if count == 1 else f"{count} files"
        say(f"compiling the C++ kernels ({files}; about a minute on two cores)")

    try:
        library = build(begins=begins)
    except build_kernels.BuildError as error:
        remedy = "Choose another compiler, as in CXX=clang++, and start again."
        raise SetupError(f"Compiling the C++ kernels failed:\n{error}", remedy) from error
    if began and library is not None:
        say(f"  done in {time.monotonic() - began:.0f} s")
    if library is None:
        say("no C++ compiler found: the much slower torch kernels will be used")
        say("  install one (Debian: g++, macOS: xcode-select --install) and start again")


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
        say("llama.cpp needs a C++ compiler: its comparison tests will be left out")
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["baseline"]
    with step("building llama.cpp, the tests' oracle, from source (about five minutes on two cores)"):
        try:
            venv.pip(*wanted, variables=baseline_variables(read_cpu_flags()))
        except PipError as error:
            say(f"  {error.what}")
            say(f"  its comparison tests will be left out. {error.remedy}")
