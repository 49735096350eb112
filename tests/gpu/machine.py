"""What machine this is: card, driver, libraries, and whether the C++ kernels can be built here."""

import importlib.metadata
import importlib.util
import platform
import time
from typing import Any

from tests.gpu.ground import Ground

PACKAGES = ("torch", "triton", "numpy", "psutil", "pynvml", "msgspec", "gguf", "jinja2", "tokenizers")
_DISTRIBUTIONS = {"pynvml": "nvidia-ml-py"}


def missing(names: tuple[str, ...]) -> list[str]:
    """Those that cannot be imported here."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def check_machine(ground: Ground, needs: dict[str, tuple[str, ...]]) -> None:
    """`needs`: what each part imports that a machine may lack."""
    ground.row("python", note=f"{platform.python_version()} on {platform.platform()}")
    for name in PACKAGES:
        ground.row(name, note=_version(name))
    for part, names in needs.items():
        if lacking := missing(names):
            ground.row(f"part {part}", passed=False, note=f"falls away: no {', '.join(lacking)}")
    with ground.case("card"):
        _card(ground)
    with ground.case("C++ kernels"):
        _library(ground)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(_DISTRIBUTIONS.get(name, name))
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _card(ground: Ground) -> None:
    driver = ground.driver()
    ground.row("CUDA of the driver", note=".".join(map(str, driver.version)))
    for card in driver.cards():
        capability = ".".join(map(str, card.capability))
        ground.row(f"cuda:{card.index}", card.total_bytes / 2**30, "GiB", note=f"{card.name}, {capability}")
        if not ground.dry:
            with ground.case("NVML"):
                ground.row("NVML", note=_nvml(card.uuid))
    if ground.dry:
        return
    from ebbtide.engine.device.choice import check_card
    from ebbtide.engine.device.probe import probe_card

    check_card(driver.cards()[0], driver, probe_card)
    ground.row("probe", goal="right numbers", passed=True)


def _nvml(uuid: str) -> str:
    import pynvml

    nvml: Any = pynvml
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    words = [f"driver {nvml.nvmlSystemGetDriverVersion()}"]
    for what, name in (("PCIe generation", "CurrPcieLinkGeneration"), ("width", "CurrPcieLinkWidth")):
        try:
            words.append(f"{what} {getattr(nvml, f'nvmlDeviceGet{name}')(handle)}")
        except nvml.NVMLError as error:
            words.append(f"{what}: {error}")
    return ", ".join(words)


def _library(ground: Ground) -> None:
    """Built from source where it is not there."""
    import build_kernels

    began = time.monotonic()
    there = build_kernels.library_path().exists()
    library = build_kernels.library_path() if there else build_kernels.build()
    note = (
        "was there" if there else f"built in {time.monotonic() - began:.0f} s" if library else "no compiler"
    )
    if library is not None:
        from ebbtide.kernels.cpu.library import best_isa

        note += f", {best_isa()}"
    ground.row("C++ kernels", goal="built", passed=library is not None, note=note)
