"""A fresh wheel: everything in it, and nothing where it would shadow other packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import build_kernels
import pytest
from hatch_build import platform_tag

ROOT = Path(__file__).parents[2]
PARTS = ("app", "engine", "kernels", "assets")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this checkout (hatchling is a test requirement, so that nothing is fetched)."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def tracked(*folders: str) -> list[str]:
    """Files of `folders` that git tracks and that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_every_tracked_file_of_the_four_folders_is_in_it(names: set[str]) -> None:
    files = tracked(*PARTS)
    assert len(files) > 10
    assert {f"ebbtide/{name}" for name in files} - names == set()


def test_the_package_itself_is_in_it(names: set[str]) -> None:
    assert {"ebbtide/__init__.py", "ebbtide/py.typed"} <= names


def test_nothing_lies_at_top_level_but_ebbtide(names: set[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"ebbtide"}


def test_licence_and_command_are_declared(wheel: Path, names: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "ebbtide = ebbtide.app.cli:main" in archive.read(entry_points).decode()


def test_it_holds_the_compiled_kernels_and_says_for_which_platform(wheel: Path, names: set[str]) -> None:
    compiled = build_kernels.find_compiler() is not None
    assert (f"ebbtide/kernels/cpu/{build_kernels.library_name()}" in names) == compiled
    assert ("-py3-none-any" in wheel.name) == (not compiled)
    assert "-py3-none-" in wheel.name


@pytest.mark.parametrize(
    ("system_platform", "machine", "tag"),
    [
        ("linux-x86_64", "x86_64", "linux_x86_64"),
        ("win-amd64", "AMD64", "win_amd64"),
        (
            "macosx-10.9-universal2",
            "arm64",
            "macosx_11_0_arm64",
        ),  # a fat Python, but one architecture compiled
    ],
)
def test_platform_tag(system_platform: str, machine: str, tag: str) -> None:
    assert platform_tag(system_platform, machine) == tag
