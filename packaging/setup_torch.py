"""Which build of torch this machine gets. Never a silent download of several GB of CUDA libraries.

A machine with an NVIDIA driver, and everything that is not Linux, takes torch as the configured index has it.
Linux without a driver takes the small CPU build: by its own name from the configured index, else by the plain
name if what the index answers is a CPU build, else from PyTorch's public index of CPU builds.
"""

import ctypes
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from setup_venv import PipError, SetupError, TooLargeError, Venv

PIN = "2.13.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# CPU builds are about 200 MB, CUDA builds over 500 MB before their libraries.
CPU_LIMIT_MB = 400.0
ACCELERATOR_LIBRARY = re.compile(r"(nvidia|cuda|pytorch[-_]triton|triton|rocm|intel[-_])", re.IGNORECASE)

DRIVER_FILE = Path("/proc/driver/nvidia/version")
DRIVER_LIBRARIES = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")


class Offer(NamedTuple):
    """What pip would install: version and requirements from the metadata of the file it chose."""

    version: str
    requires: tuple[str, ...]


class Attempt(NamedTuple):
    """One way to get the CPU build. A name without the label `+cpu` proves nothing: look at the offer."""

    requirement: str
    index_args: tuple[str, ...]
    where: str


ATTEMPTS = (
    Attempt(f"torch=={PIN}+cpu", (), "the configured package index"),
    Attempt(f"torch=={PIN}", (), "the configured package index"),
    Attempt(f"torch=={PIN}+cpu", ("--index-url", CPU_INDEX), CPU_INDEX),
)


def loadable(library: str) -> bool:
    """True when the dynamic linker finds and loads `library`."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def has_nvidia_driver(driver_file: Path = DRIVER_FILE, can_load: Callable[[str], bool] = loadable) -> bool:
    """True when the kernel driver's file or its user library is there (WSL has the library only)."""
    return driver_file.exists() or any(can_load(name) for name in DRIVER_LIBRARIES)


def is_cpu_build(offer: Offer) -> bool:
    """True when the version's label says `cpu`, or has no label and requires no accelerator's libraries."""
    label = offer.version.partition("+")[2]
    if label:
        return label == "cpu"
    return not any(ACCELERATOR_LIBRARY.match(requirement) for requirement in offer.requires)


def ask_index(venv: Venv, attempt: Attempt) -> Offer | None:
    """What the index offers, by its metadata; None when that is nothing, or only behind a large download."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = ["--no-deps", "--ignore-installed", *attempt.index_args, attempt.requirement]
        try:
            venv.pip("--dry-run", "--report", str(report), *wanted, limit_mb=CPU_LIMIT_MB)
        except (PipError, TooLargeError):
            return None
        metadata = json.loads(report.read_text(encoding="utf-8"))["install"][0]["metadata"]
    return Offer(metadata["version"], tuple(metadata.get("requires_dist", ())))


def install_cpu_build(venv: Venv, attempts: Sequence[Attempt] = ATTEMPTS) -> None:
    """Takes the first attempt whose offer is a CPU build; raises SetupError when there is none."""
    for attempt in attempts:
        offer = ask_index(venv, attempt)
        if offer is None or not is_cpu_build(offer):
            continue
        venv.progress.say(f"  installing torch {offer.version} (CPU build) from {attempt.where}")
        # Byte code of torch's thousands of files takes long to make; Python makes what it needs by itself.
        venv.pip("--no-deps", "--no-compile", *attempt.index_args, attempt.requirement, limit_mb=CPU_LIMIT_MB)
        return
    raise SetupError(
        f"No CPU build of torch {PIN} was found, and this machine has no NVIDIA driver for the CUDA build.",
        f"Check the network, or install one by hand and run this again: "
        f"{venv.program('python')} -m pip install torch=={PIN}+cpu --index-url {CPU_INDEX}",
    )


def install(venv: Venv, system: str = sys.platform) -> None:
    """Installs the right torch unless the pinned version, in any build, is already there."""
    if venv.version_of("torch").partition("+")[0] == PIN:
        return
    if system != "linux":
        venv.progress.say(f"  installing torch {PIN}")
        venv.pip(f"torch=={PIN}")
    elif has_nvidia_driver():
        venv.progress.say(f"  NVIDIA driver found: torch {PIN} with CUDA, a download of several GB")
        venv.pip(f"torch=={PIN}")
    else:
        install_cpu_build(venv)
