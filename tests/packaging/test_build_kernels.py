"""The kernels' build: what is compiled with which flags, and when nothing is."""

import ctypes
import os
import shutil
from pathlib import Path

import build_kernels
import pytest
from build_kernels import BuildError, Compiler, compile_command, library_path, link_command

GCC = Compiler(("/usr/bin/g++",), "g++ 12")
MSVC = Compiler(("C:/tools/cl.exe",), "cl 19")
EXPORT = 'extern "C" __attribute__((visibility("default")))'

needs_compiler = pytest.mark.skipif(build_kernels.find_compiler() is None, reason="no C++ compiler here")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder shaped like a checkout, with two translation units and a header."""
    folder = tmp_path / build_kernels.SOURCE_DIR
    folder.mkdir(parents=True)
    (folder / "value.h").write_text("#define VALUE 3\n")
    (folder / "one.cpp").write_text(f'#include "value.h"\n{EXPORT} int eb_one() {{ return VALUE; }}\n')
    (folder / "two.cpp").write_text(f"{EXPORT} int eb_two() {{ return 2; }}\n")
    return tmp_path


def objects(checkout: Path) -> dict[str, int]:
    """Object files with the time each was made, in nanoseconds."""
    return {path.name: path.stat().st_mtime_ns for path in (checkout / build_kernels.WORK_DIR).glob("*.o")}


@needs_compiler
def test_the_library_can_be_called(checkout: Path) -> None:
    library = build_kernels.build(checkout)
    assert library == library_path(checkout)
    handle = ctypes.CDLL(str(library))
    assert (handle.eb_one(), handle.eb_two()) == (3, 2)


@needs_compiler
def test_a_second_build_compiles_and_links_nothing(checkout: Path) -> None:
    build_kernels.build(checkout)
    before = objects(checkout), library_path(checkout).stat().st_mtime_ns
    build_kernels.build(checkout)
    assert (objects(checkout), library_path(checkout).stat().st_mtime_ns) == before


@needs_compiler
def test_whoever_waits_hears_how_much_is_compiled_before_it_is_and_while_it_is(checkout: Path) -> None:
    counts: list[int] = []
    done: list[int] = []
    units = len(build_kernels.sources(checkout))
    assert build_kernels.to_compile(checkout) == units
    build_kernels.build(checkout, begins=counts.append, compiled=done.append)
    build_kernels.build(checkout, begins=counts.append, compiled=done.append)
    assert counts == [units] and done == list(range(1, units + 1))
    assert build_kernels.to_compile(checkout) == 0


def test_an_edited_source_is_compiled_alone(checkout: Path) -> None:
    build_kernels.build(checkout)
    before = objects(checkout)
    source = checkout / build_kernels.SOURCE_DIR / "two.cpp"
    source.write_text(source.read_text().replace("return 2", "return 5"))
    build_kernels.build(checkout)
    new = set(objects(checkout)) - set(before)
    assert [name.partition("-")[0] for name in new] == ["two"]


@needs_compiler
def test_an_edited_header_reaches_the_library(checkout: Path) -> None:
    build_kernels.build(checkout)
    (checkout / build_kernels.SOURCE_DIR / "value.h").write_text("#define VALUE 7\n")
    copy = checkout / "copy.so"  # another name: the loader returns an open library when asked for the same
    copy.write_bytes(Path(str(build_kernels.build(checkout))).read_bytes())
    assert ctypes.CDLL(str(copy)).eb_one() == 7


@needs_compiler
def test_a_deleted_library_is_linked_again(checkout: Path) -> None:
    build_kernels.build(checkout)
    library_path(checkout).unlink()
    build_kernels.build(checkout)
    assert library_path(checkout).exists()


@needs_compiler
def test_an_error_shows_what_the_compiler_said(checkout: Path) -> None:
    (checkout / build_kernels.SOURCE_DIR / "one.cpp").write_text("int broken( { return 1; }\n")
    with pytest.raises(BuildError, match=r"one\.cpp"):
        build_kernels.build(checkout)
    assert not library_path(checkout).exists()


@needs_compiler
def test_old_objects_go_after_a_day(checkout: Path) -> None:
    build_kernels.build(checkout)
    work = checkout / build_kernels.WORK_DIR
    old, recent = work / "one-0.o", work / "one-1.o"
    for path in (old, recent):
        path.touch()
    os.utime(old, (0, 0))
    build_kernels.build(checkout)
    assert (old.exists(), recent.exists()) == (False, True)


def test_without_a_compiler_nothing_is_built(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    monkeypatch.delenv("CXX", raising=False)
    assert build_kernels.build(checkout) is None
    assert not library_path(checkout).exists()


@pytest.mark.skipif(os.name == "nt", reason="the stand-in compiler is a shell script")
def test_cxx_is_preferred_and_may_carry_arguments(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = checkout / "my-c++"
    stand_in.write_text(f"#!{shutil.which('sh')}\necho mine 1.2\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("CXX", f"{stand_in} --fast")
    assert build_kernels.find_compiler() == Compiler((str(stand_in), "--fast"), "mine 1.2")


@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [
        ("pool.cpp", "-ffp-contract=off", "-mavx2"),
        ("linear_avx2.cpp", "-mf16c", "-mavx512f"),
        ("linear_avxvnni.cpp", "-mavxvnni", "-mavx512f"),
        ("linear_avx512.cpp", "-mavx512vnni", "-mamx-tile"),
        ("linear_amx.cpp", "-mamx-int8", "-mavx2"),
        ("strip_portable.cpp", "-O3", "-mfma"),
    ],
)
def test_the_suffix_chooses_the_instruction_set(name: str, present: str, absent: str) -> None:
    command = compile_command(GCC, Path(name), Path("x.o"))
    assert present in command
    assert absent not in command


def test_msvc_gets_its_own_words() -> None:
    command = compile_command(MSVC, Path("linear_avx2.cpp"), Path("x.obj"))
    assert {"/arch:AVX2", "/fp:precise", "/c"} <= set(command)
    assert not any(word.startswith("-") for word in command[1:])
    assert "/LD" in link_command(MSVC, [Path("x.obj")], Path("x.dll"))


def test_other_architectures_skip_x86_units(checkout: Path) -> None:
    (checkout / build_kernels.SOURCE_DIR / "one_avx2.cpp").touch()
    stems = [path.stem for path in build_kernels.sources(checkout, "aarch64")]
    assert stems == ["one", "two"]
    assert [path.stem for path in build_kernels.sources(checkout, "AMD64")] == ["one", "one_avx2", "two"]


@pytest.mark.parametrize(
    ("system", "name"),
    [("linux", "_ebbtide_cpu.so"), ("darwin", "_ebbtide_cpu.dylib"), ("win32", "_ebbtide_cpu.dll")],
)
def test_library_name(system: str, name: str) -> None:
    assert build_kernels.library_name(system) == name
