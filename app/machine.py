"""Facts about this machine that a person or a benchmark wants to see; an unknown is None, never a guess."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebbtide.engine.device.describe import CardFacts, describe_cards
from ebbtide.engine.disk import free_bytes
from ebbtide.engine.memory.cgroups import smallest_limit
from ebbtide.engine.memory.observed import observe
from ebbtide.engine.processors import Processors, cpu_name, find_processors

INSTRUCTION_SETS = (
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vbmi",
    "avx512_vnni",
    "gfni",
    "amx_int8",
)
_DIRECT_BYTES = 4096


@dataclass(frozen=True)
class Machine:
    cpu: str
    instruction_sets: list[str]
    cores: int
    threads: int
    """That can run at the same time: affinity and a container's quota count."""
    default_threads: int
    """That compute where nobody says how many."""
    default_threads_found: str
    """How: `counted`, `measured`, or `counted until a load measures it`."""
    isa: str
    """Of the kernels that `--isa auto` chooses, as `bench` names them."""
    other_isas: list[str]
    """That `--isa` may name besides."""
    memory_bytes: int
    memory_available_bytes: int
    memory_limit_bytes: int | None
    """A container's or cgroup's limit, where there is one."""
    usable_bytes: int
    """That `--budget auto` may take now."""
    disk_free_bytes: int | None
    """None where the file system keeps no count."""
    direct_io: bool
    """Whether files in the models' folder can be read without the page cache."""
    kernels: str | None
    """File name of the compiled kernels."""
    compiler: str | None
    gpu: str | None
    gpu_driver: str | None
    cuda: str | None
    """The newest CUDA that the driver runs; None without a driver."""
    cards: list[CardFacts]
    cards_problem: str
    """Why the driver shows no card."""
    torch: str | None
    baseline: bool
    """Whether llama.cpp is installed for comparisons."""

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def describe_machine(folder: Path, cache: Path | None = None) -> Machine:
    """Look at the machine, the disk that `folder` is or will be on, and measurements kept in `cache`."""
    import psutil

    memory = psutil.virtual_memory()
    room = observe().budget_room_bytes
    isa, other_isas = instruction_choice()
    place = existing_parent(folder)
    here = find_processors()
    threads, threads_found = default_threads(cache, here)
    found = describe_cards()
    return Machine(
        cpu=cpu_name(),
        instruction_sets=instruction_sets(),
        cores=psutil.cpu_count(logical=False) or os.cpu_count() or 1,
        threads=here.usable,
        default_threads=threads,
        default_threads_found=threads_found,
        isa=isa,
        other_isas=other_isas,
        memory_bytes=memory.total,
        memory_available_bytes=memory.available,
        memory_limit_bytes=smallest_limit(),
        usable_bytes=memory.available if room is None else room,
        disk_free_bytes=free_bytes(place),
        direct_io=direct_io_works(place),
        kernels=kernels_file(),
        compiler=next((name for name in ("c++", "g++", "clang++", "cl") if shutil.which(name)), None),
        gpu=gpu_name(),
        gpu_driver=gpu_driver(),
        cuda=found.cuda,
        cards=found.cards,
        cards_problem=found.problem,
        torch=_version_of("torch"),
        baseline=importlib.util.find_spec("llama_cpp") is not None,
    )


def existing_parent(path: Path) -> Path:
    """`path`, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def instruction_sets() -> list[str]:
    """Those that matter to the kernels, as Linux names them; empty where the system does not say."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    flags = set(match.group(1).split()) if match else set()
    return [name for name in INSTRUCTION_SETS if name in flags]


def default_threads(cache: Path | None, here: Processors) -> tuple[int, str]:
    """Threads that compute by default, and how their number was found."""
    from ebbtide.engine.threads import known_threads  # imports numpy

    known = known_threads("auto", cache, here)
    if known.measured:
        return known.threads, "measured"
    return known.threads, "counted until a load measures it" if known.to_measure else "counted"


def instruction_choice() -> tuple[str, list[str]]:
    """What the kernels take here by themselves, and what they can be told to take."""
    from ebbtide.kernels.dispatch import chosen_isa, runnable_isas  # imports numpy

    chosen = chosen_isa("auto")
    # Wider registers are no sign that these products are there too.
    missing = set() if "avx_vnni" in instruction_sets() else {"avxvnni"}
    return chosen, [isa for isa in runnable_isas() if isa != chosen and isa not in missing]


def direct_io_works(folder: Path) -> bool:
    """Write a small file and read it back around the page cache; some file systems refuse."""
    if not hasattr(os, "O_DIRECT"):
        return False
    import mmap

    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file, mmap.mmap(-1, _DIRECT_BYTES) as buffer:
            file.write(bytes(_DIRECT_BYTES))
            file.flush()
            descriptor = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
            try:
                return os.preadv(descriptor, [buffer], 0) == _DIRECT_BYTES
            finally:
                os.close(descriptor)
    except OSError:
        return False


def kernels_file() -> str | None:
    import ebbtide

    folder = Path(ebbtide.__file__).parent / "kernels" / "cpu"
    libraries = {".so", ".dylib", ".dll"}
    names = sorted(path.name for path in folder.glob("_ebbtide_cpu.*") if path.suffix in libraries)
    return names[0] if names else None


def gpu_driver() -> str | None:
    match = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)", _read("/proc/driver/nvidia/version"))
    return match.group(1) if match else None


def gpu_name() -> str | None:
    """The first NVIDIA card's name, from the driver's own files."""
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", _read(str(file)), re.MULTILINE)
        if match:
            return match.group(1).strip()
    return None


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
