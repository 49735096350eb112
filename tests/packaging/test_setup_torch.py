"""Which torch a machine gets: every answer an index can give, with and without an NVIDIA driver."""

import json
from pathlib import Path
from typing import cast

import pytest
import setup_torch
from setup_progress import Progress
from setup_torch import CPU_INDEX, PIN, Offer, has_nvidia_driver, install, is_cpu_build
from setup_venv import PipError, SetupError, TooLargeError, Venv

CPU = {"version": f"{PIN}+cpu", "requires_dist": ["filelock", "sympy>=1.13.3"]}
UNLABELLED_CPU = {"version": PIN, "requires_dist": ["filelock", "numpy; extra == 'numpy'"]}
CUDA = {
    "version": PIN,
    "requires_dist": ["filelock", "nvidia-cublas-cu12==12.8.4.1; platform_system == 'Linux'"],
}

Index = dict[str, object]


class FakeVenv:
    """Answers pip from two made-up indexes: {requirement: metadata, or an exception to raise}."""

    def __init__(self, configured: Index, public: Index | None = None, installed: str = "") -> None:
        self.indexes = {"configured": configured, "public": public or {}}
        self.installed = installed
        self.commands: list[list[str]] = []
        self.progress = Progress(1)

    def program(self, name: str) -> Path:
        return Path(".venv/bin") / name

    def version_of(self, package: str) -> str:
        assert package == "torch"
        return self.installed

    def pip(self, *arguments: str, limit_mb: float | None = None) -> None:
        index = self.indexes["public" if CPU_INDEX in arguments else "configured"]
        answer = index.get(arguments[-1], PipError("No matching distribution", "log"))
        if isinstance(answer, TooLargeError) and limit_mb is None:
            answer = CUDA
        if isinstance(answer, Exception):
            raise answer
        if "--dry-run" in arguments:
            report = Path(arguments[arguments.index("--report") + 1])
            report.write_text(json.dumps({"install": [{"metadata": answer}]}))
        else:
            self.commands.append(list(arguments))


def installed_by(fake: FakeVenv, *, system: str = "linux") -> list[list[str]]:
    install(cast(Venv, fake), system)
    return fake.commands


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_torch, "has_nvidia_driver", lambda: False)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_torch, "has_nvidia_driver", lambda: True)


@pytest.mark.usefixtures("no_driver")
class TestLinuxWithoutDriver:
    def test_the_labelled_build_comes_first(self) -> None:
        fake = FakeVenv({f"torch=={PIN}+cpu": CPU, f"torch=={PIN}": CUDA})
        assert installed_by(fake) == [["--no-deps", "--no-compile", f"torch=={PIN}+cpu"]]

    def test_a_plain_name_that_means_the_cpu_build(self) -> None:
        assert installed_by(FakeVenv({f"torch=={PIN}": CPU})) == [
            ["--no-deps", "--no-compile", f"torch=={PIN}"]
        ]

    def test_an_unlabelled_cpu_build_is_known_by_its_requirements(self) -> None:
        assert installed_by(FakeVenv({f"torch=={PIN}": UNLABELLED_CPU})) == [
            ["--no-deps", "--no-compile", f"torch=={PIN}"]
        ]

    @pytest.mark.parametrize("offer", [CUDA, TooLargeError("torch is a download of 888 MB", "")])
    def test_a_cuda_build_is_passed_over_for_the_public_cpu_index(self, offer: object) -> None:
        fake = FakeVenv({f"torch=={PIN}": offer}, {f"torch=={PIN}+cpu": CPU})
        assert installed_by(fake) == [
            ["--no-deps", "--no-compile", "--index-url", CPU_INDEX, f"torch=={PIN}+cpu"]
        ]

    @pytest.mark.parametrize("configured", [{}, {f"torch=={PIN}": CUDA}])
    def test_nothing_found_is_an_error_that_says_what_to_do(self, configured: Index) -> None:
        fake = FakeVenv(configured)
        with pytest.raises(SetupError, match="No CPU build") as caught:
            installed_by(fake)
        assert f"pip install torch=={PIN}+cpu --index-url {CPU_INDEX}" in caught.value.remedy
        assert fake.commands == []


def test_a_card_gets_torch_as_usual(driver: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert installed_by(FakeVenv({f"torch=={PIN}": CUDA})) == [[f"torch=={PIN}"]]
    assert "several GB" in capsys.readouterr().err


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_get_torch_as_usual(no_driver: None, system: str) -> None:
    assert installed_by(FakeVenv({f"torch=={PIN}": UNLABELLED_CPU}), system=system) == [[f"torch=={PIN}"]]


@pytest.mark.parametrize(("installed", "expected"), [(PIN, 0), (f"{PIN}+cpu", 0), ("2.9.1+cpu", 1), ("", 1)])
def test_what_is_there_is_kept_if_it_is_the_pinned_one(
    no_driver: None, installed: str, expected: int
) -> None:
    fake = FakeVenv({f"torch=={PIN}+cpu": CPU}, installed=installed)
    assert len(installed_by(fake)) == expected


@pytest.mark.parametrize(
    ("version", "requires", "expected"),
    [
        (f"{PIN}+cpu", (), True),
        (f"{PIN}+cu130", (), False),
        (f"{PIN}+rocm7.0", (), False),
        (PIN, ("filelock", "networkx"), True),
        (PIN, ("filelock", "triton==3.9.0; platform_system == 'Linux'"), False),
        (PIN, ("nvidia-nccl-cu12",), False),
        (PIN, ("cuda-bindings<14",), False),
    ],
)
def test_is_cpu_build(version: str, requires: tuple[str, ...], expected: bool) -> None:
    assert is_cpu_build(Offer(version, requires)) is expected


class TestDriver:
    def test_the_kernel_drivers_file_is_enough(self, tmp_path: Path) -> None:
        file = tmp_path / "version"
        file.touch()
        assert has_nvidia_driver(file, lambda name: False)

    @pytest.mark.parametrize("library", ["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"])
    def test_a_loadable_library_is_enough(self, tmp_path: Path, library: str) -> None:
        assert has_nvidia_driver(tmp_path / "none", lambda name: name == library)

    def test_neither_means_no_driver(self, tmp_path: Path) -> None:
        assert not has_nvidia_driver(tmp_path / "none", lambda name: False)

    def test_a_library_that_does_not_load_is_none(self, tmp_path: Path) -> None:
        broken = tmp_path / "libcuda.so.1"
        broken.write_bytes(b"not a library")
        assert not setup_torch.loadable(str(broken))
