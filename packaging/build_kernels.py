"""Compiles the C++ kernels, `kernels/cpu/src/*.cpp`, into the library that `ebbtide.kernels.cpu` opens.

Run it in a checkout after editing a kernel: `python packaging/build_kernels.py`. The wheel's build hook calls
the same function. Objects and library are keyed by a hash of all that made them: a second call does nothing.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE_DIR = Path("kernels/cpu/src")
WORK_DIR = Path("build/kernels")
PARALLEL = min(8, os.cpu_count() or 1)
MACOS_TARGET = "11.0"
KEEP_SECONDS = 24 * 3600
CANDIDATES = ("c++", "g++", "clang++", "cl")

# Contraction stays off: a fused multiply-add happens where the source writes one and nowhere else, because
# the bits of a row must not depend on what a compiler finds profitable.
UNIX_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wextra",
    *((f"-mmacosx-version-min={MACOS_TARGET}",) if sys.platform == "darwin" else ()),
)
MSVC_FLAGS = ("/nologo", "/std:c++17", "/O2", "/EHsc", "/MD", "/utf-8", "/fp:precise", "/bigobj", "/W3")

# GCC 12 calls its own AVX-512 intrinsics maybe-uninitialised; clang does not know that warning's name.
QUIET = ("-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Wno-unknown-warning-option")
AVX512 = ("f", "bw", "vl", "dq", "vbmi", "vnni")
UNIX_AVX512 = (*(f"-mavx512{part}" for part in AVX512), "-mgfni", "-mfma", "-mf16c", *QUIET)
UNIX_ISA_FLAGS = {
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "avxvnni": ("-mavx2", "-mfma", "-mf16c", "-mavxvnni", "-mgfni"),
    "avx512": UNIX_AVX512,
    "amx": (*UNIX_AVX512, "-mamx-tile", "-mamx-int8"),
}
MSVC_ISA_FLAGS = {
    "avx2": ("/arch:AVX2",),
    "avxvnni": ("/arch:AVX2",),
    "avx512": ("/arch:AVX512",),
    "amx": ("/arch:AVX512",),
}
X86_NAMES = {"x86_64", "amd64"}


class BuildError(Exception):
    """A compiler was found but could not build the library; the text holds its output."""


class Compiler(NamedTuple):
    """A C++ compiler as a command, with what its version line says (part of every hash)."""

    command: tuple[str, ...]
    version: str

    @property
    def is_msvc(self) -> bool:
        """True for cl.exe, whose flags differ from everyone else's."""
        return Path(self.command[0]).stem.lower() == "cl"


def library_name(system: str = sys.platform) -> str:
    """File name of the library on `system` (a `sys.platform` value)."""
    suffix = {"win32": "dll", "darwin": "dylib"}.get(system, "so")
    return f"_ebbtide_cpu.{suffix}"


def library_path(root: Path = ROOT) -> Path:
    """Where the library lies in a checkout."""
    return root / "kernels/cpu" / library_name()


def sources(root: Path = ROOT, machine: str | None = None) -> list[Path]:
    """Translation units for `machine`; those of another architecture's instruction sets are left out."""
    is_x86 = (machine or platform.machine()).lower() in X86_NAMES
    found = sorted((root / SOURCE_DIR).glob("*.cpp"))
    return [path for path in found if is_x86 or isa_of(path) is None]


def isa_of(source: Path) -> str | None:
    """Instruction set named by the file's suffix: `linear_avx2.cpp` -> `avx2`, `linear.cpp` -> None."""
    suffix = source.stem.rpartition("_")[2]
    return suffix if suffix in UNIX_ISA_FLAGS else None


def find_compiler() -> Compiler | None:
    """The compiler named by $CXX, else the first of the usual names on PATH; None when there is none."""
    named = os.environ.get("CXX", "").split()
    for command in ([named] if named else []) + [[name] for name in CANDIDATES]:
        path = shutil.which(command[0])
        if path is None:
            continue
        ask = [path] if Path(path).stem.lower() == "cl" else [path, *command[1:], "--version"]
        answer = subprocess.run(ask, capture_output=True, text=True, errors="replace", check=False)
        return Compiler((path, *command[1:]), (answer.stdout + answer.stderr).strip().partition("\n")[0])
    return None


def compile_command(compiler: Compiler, source: Path, target: Path) -> list[str]:
    """Command that turns one translation unit into one object file."""
    isa = isa_of(source)
    if compiler.is_msvc:
        flags = (*MSVC_FLAGS, *(MSVC_ISA_FLAGS[isa] if isa else ()))
        return [*compiler.command, *flags, "/c", str(source), f"/Fo{target}"]
    flags = (*UNIX_FLAGS, *(UNIX_ISA_FLAGS[isa] if isa else ()))
    return [*compiler.command, *flags, "-c", str(source), "-o", str(target)]


def link_command(compiler: Compiler, objects: Sequence[Path], target: Path) -> list[str]:
    """Command that turns all objects into the shared library."""
    names = [str(path) for path in objects]
    if compiler.is_msvc:
        return [*compiler.command, "/nologo", "/LD", *names, "/link", f"/OUT:{target}", "/NOIMPLIB"]
    return [*compiler.command, "-shared", "-pthread", *names, "-o", str(target)]


def digest(*parts: bytes | str) -> str:
    """Hash of the parts, each preceded by its length so that two lists never collide by concatenation."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()[:24]


def run(command: list[str]) -> None:
    """Runs a compiler or linker; raises BuildError with everything it printed."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr)


def object_path(compiler: Compiler, source: Path, headers: str, work: Path) -> Path:
    """Where the object of `source` lies; its name tells content, headers, compiler and flags."""
    recipe = " ".join(compile_command(compiler, Path(source.name), Path("object")))
    key = digest(source.read_bytes(), headers, compiler.version, recipe)
    return work / f"{source.stem}-{key}.o"


def compile_one(compiler: Compiler, source: Path, target: Path) -> Path:
    """Compiles `source` to `target`, unless that is there already."""
    if not target.exists():
        scratch = target.with_name(f"{target.stem}.{os.getpid()}.o")
        run(compile_command(compiler, source, scratch))
        scratch.replace(target)
    return target


def plan(compiler: Compiler, root: Path = ROOT) -> dict[Path, Path]:
    """Each translation unit and where its object lies, or will lie."""
    headers = digest(*(path.read_bytes() for path in sorted((root / SOURCE_DIR).glob("*.h*"))))
    return {unit: object_path(compiler, unit, headers, root / WORK_DIR) for unit in sources(root)}


def to_compile(root: Path = ROOT) -> int:
    """How many files a build would compile now; 0 without a compiler."""
    compiler = find_compiler()
    return sum(not target.exists() for target in plan(compiler, root).values()) if compiler else 0


def build(
    root: Path = ROOT,
    *,
    force: bool = False,
    begins: Callable[[int], None] = lambda count: None,
    compiled: Callable[[int], None] = lambda done: None,
) -> Path | None:
    """Builds the library if anything changed since it was last built here.

    `begins` hears how many files are going to be compiled, if any is: that takes a minute or more; `compiled`
    how many of them are done. Returns the library's path, or None without a compiler (the torch reference
    then does the work). Raises BuildError when the compiler fails. Two builds at once are safe: every file
    appears by an atomic rename.
    """
    compiler = find_compiler()
    if not sources(root) or compiler is None:
        return None
    work, library = root / WORK_DIR, library_path(root)
    if force:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    objects = plan(compiler, root)
    missing = {unit: target for unit, target in objects.items() if not target.exists()}
    if missing:
        begins(len(missing))
    with ThreadPoolExecutor(PARALLEL) as pool:
        jobs = [pool.submit(compile_one, compiler, *pair) for pair in missing.items()]
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            compiled(done)
    targets = list(objects.values())
    recipe = " ".join(link_command(compiler, [Path(path.name) for path in targets], Path(library.name)))
    stamp, key = work / "linked", digest(compiler.version, recipe)
    if not (library.exists() and stamp.exists() and stamp.read_text() == key):
        scratch = work / f"{os.getpid()}-{library.name}"
        run(link_command(compiler, targets, scratch))
        scratch.replace(library)
        stamp.write_text(key)
    remove_stale(work, targets)
    return library


def remove_stale(work: Path, objects: Sequence[Path]) -> None:
    """Deletes other objects a day after they were made: until then another build may be linking them."""
    for path in set(work.glob("*.o")) - set(objects):
        if time.time() - path.stat().st_mtime > KEEP_SECONDS:
            path.unlink(missing_ok=True)


def main() -> int:
    """Command line: builds, prints the library's path; exit code 1 when it could not be built."""
    parser = argparse.ArgumentParser(description="Compile ebbtide's C++ kernels in this checkout.")
    parser.add_argument("--force", action="store_true", help="compile everything again")
    try:
        library = build(force=parser.parse_args().force)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if library is None:
        print("No C++ compiler found: ebbtide will use its slower torch kernels.", file=sys.stderr)
        print("Install one (Debian: g++, macOS: xcode-select --install) and run this again.", file=sys.stderr)
        return 1
    print(library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
