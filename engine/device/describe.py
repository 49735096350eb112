"""The cards of this machine for a person: what they are, and why one cannot be used. Imports no torch."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.engine.device.card_memory import card_memory
from ebbtide.engine.device.choice import Unusable, check_card
from ebbtide.engine.device.driver import NO_DEVICE, Card, CudaDriver, DriverError
from ebbtide.engine.device.nvml import Nvml


@dataclass(frozen=True)
class CardFacts:
    """One card; `free_bytes` None = nobody says."""

    index: int
    name: str
    uuid: str
    capability: str
    memory_bytes: int
    free_bytes: int | None
    integrated: bool
    problem: str
    """Why ebbtide cannot use it; empty when nothing speaks against it."""


@dataclass(frozen=True)
class Cards:
    """All cards. `cuda` is the newest CUDA that the driver runs; `problem` says why there are none."""

    cuda: str | None
    cards: list[CardFacts]
    problem: str


def describe_cards(
    open_driver: Callable[[], CudaDriver] = CudaDriver,
    open_nvml: Callable[[], Nvml] = Nvml,
    version_of: Callable[[str], str] = importlib.metadata.version,
) -> Cards:
    """Look at every card that this process may use; makes no context on any."""
    try:
        driver = open_driver()
        version, cards = driver.version, driver.cards()
    except DriverError as error:
        return Cards(None, [], "" if error.code in (0, NO_DEVICE) else str(error))
    nvml, missing = open_nvml(), _what_is_missing(version_of)
    facts = [_facts(card, driver, nvml, missing) for card in cards]
    return Cards(".".join(map(str, version)), facts, "")


def _facts(card: Card, driver: CudaDriver, nvml: Nvml, missing: str) -> CardFacts:
    memory = card_memory(card, nvml.memory(card.uuid))
    return CardFacts(
        index=card.index,
        name=card.name,
        uuid=card.uuid,
        capability=".".join(map(str, card.capability)),
        memory_bytes=memory.total_bytes,
        free_bytes=memory.free_bytes,
        integrated=card.integrated,
        problem=_problem(card, driver) or missing,
    )


def _problem(card: Card, driver: CudaDriver) -> str:
    try:
        check_card(card, driver, lambda _: None)
    except Unusable as why:
        return str(why)
    return ""


def _what_is_missing(version_of: Callable[[str], str]) -> str:
    """What the installation lacks for any card. That a kernel runs is found out when a model is loaded."""
    for name in ("torch", "triton"):
        try:
            version = version_of(name)
        except importlib.metadata.PackageNotFoundError:
            return f"{name} is not installed"
        if version.endswith("+cpu"):
            return f"{name} {version} was built for the processor only"
    return ""
