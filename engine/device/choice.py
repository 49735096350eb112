"""Where a model runs: `--device auto|cpu|cuda:N` against what this machine has.

"auto" falls back to the processor and says why; a card that was asked for by name is used or refused.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.engine.device.driver import NO_DEVICE, Card, CudaDriver, DriverError
from ebbtide.engine.errors import EbbtideError, UsageError

OLDEST_CAPABILITY = (7, 5)
"""Turing: the oldest with fast 16-bit products. Triton's newest releases still compile for it."""
OLDEST_CUDA = (12, 0)
CPU_HINT = "Use --device cpu."


@dataclass(frozen=True)
class DeviceChoice:
    """`card` None = the processor. `notice` says why a card that is there is not used."""

    card: Card | None
    notice: str = ""


class Unusable(Exception):
    """Why a card cannot be used, and what to do about it."""

    def __init__(self, reason: str, hint: str = CPU_HINT) -> None:
        super().__init__(reason)
        self.hint = hint


Probe = Callable[[Card], None]
"""Runs one real kernel on a card. Raises Unusable."""


def choose_device(
    wish: str,
    probe: Probe,
    open_driver: Callable[[], CudaDriver] = CudaDriver,
) -> DeviceChoice:
    """The device for `wish`. Of several cards "auto" takes the usable one with the most memory.

    Raises UsageError for a word or a number that names no device, or a card that cannot be used.
    """
    index = parse_device(wish)
    if wish == "cpu":
        return DeviceChoice(None)
    try:
        driver = open_driver()
        cards = driver.cards()
    except DriverError as error:
        return _without_driver(index, error)
    if index is not None:
        return DeviceChoice(_asked_for(index, cards, driver, probe))
    return _best(cards, driver, probe)


def parse_device(wish: str) -> int | None:
    """The number in cuda:N; None for auto and cpu. Raises UsageError for anything else."""
    if wish in ("auto", "cpu"):
        return None
    match = re.fullmatch(r"cuda(?::(\d{1,3}))?", wish)
    if match is None:
        raise UsageError(
            f"--device {wish} is not a device", hint="Use auto, cpu or cuda:N (cuda:0 is the first)."
        )
    return int(match.group(1) or 0)


def check_card(card: Card, driver: CudaDriver, probe: Probe) -> None:
    """Raise Unusable unless `card` runs ebbtide's kernels."""
    if card.capability < OLDEST_CAPABILITY:
        has, needs = (".".join(map(str, pair)) for pair in (card.capability, OLDEST_CAPABILITY))
        raise Unusable(f"{card.name} has compute capability {has}, and {needs} or newer is needed")
    version = driver.version
    if version < OLDEST_CUDA:
        has, needs = (".".join(map(str, pair)) for pair in (version, OLDEST_CUDA))
        raise Unusable(
            f"the NVIDIA driver runs CUDA {has} at most, and {needs} or newer is needed",
            "Update the NVIDIA driver, or use --device cpu.",
        )
    probe(card)


def _without_driver(index: int | None, error: DriverError) -> DeviceChoice:
    if index is not None:
        raise UsageError(f"cuda:{index} cannot be used: {error}", hint=CPU_HINT) from error
    # A machine without a card is no news; a driver that does not start is.
    return DeviceChoice(None, "" if error.code in (0, NO_DEVICE) else f"No card is used: {error}.")


def _asked_for(index: int, cards: list[Card], driver: CudaDriver, probe: Probe) -> Card:
    if index >= len(cards):
        there = ", ".join(f"cuda:{card.index} ({card.name})" for card in cards) or "none"
        raise UsageError(
            f"There is no cuda:{index}; cards here: {there}", hint="Use one of them, or --device cpu."
        )
    try:
        check_card(cards[index], driver, probe)
    except Unusable as why:
        raise UsageError(f"cuda:{index} cannot be used: {why}", hint=why.hint) from why
    return cards[index]


def _best(cards: list[Card], driver: CudaDriver, probe: Probe) -> DeviceChoice:
    reasons = []
    for card in sorted(cards, key=lambda card: (-card.total_bytes, card.index)):
        try:
            check_card(card, driver, probe)
        except (Unusable, EbbtideError) as why:
            reasons.append(f"cuda:{card.index} is not used: {why}.")
        else:
            return DeviceChoice(card, " ".join(reasons))
    return DeviceChoice(None, " ".join(reasons))
