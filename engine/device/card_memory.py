"""How much of a card is free now: NVML's figure where it can be believed, else CUDA's own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ebbtide.engine.device.driver import Card, DriverError
from ebbtide.engine.device.nvml import NvmlMemory

AGREE_BYTES = 512 << 20
"""Free memory changes between two calls; beyond this the two mean different things."""
SAME_CARD_SHARE = 1 / 16
"""NVML counts what the driver reserves, some 1 to 3 % of a card; a MIG instance that is not the whole card
has half of it at most. Not measured on a card yet.
"""


@dataclass(frozen=True)
class CardMemory:
    """Bytes of a card. `source` says whose figures total and free are; `notice` is for a person."""

    total_bytes: int
    free_bytes: int | None
    own_bytes: int | None
    others_bytes: int | None
    source: Literal["nvml", "cuda", "none"]
    notice: str = ""


def card_memory(
    card: Card, nvml: NvmlMemory, cuda: Callable[[], tuple[int, int]] | None = None
) -> CardMemory:
    """Put together what is known. `cuda` asks the driver for (free, total); None while no context exists."""
    asked = _ask(cuda)
    if nvml.total_bytes is None or nvml.free_bytes is None:
        return _from_cuda(card, asked, f"NVML gives no figures: {nvml.problem}")
    total = card.total_bytes if asked is None else asked[1]
    if abs(nvml.total_bytes - total) > SAME_CARD_SHARE * total:
        return _from_cuda(card, asked, "NVML speaks of another amount of memory than CUDA")
    if asked is not None and abs(nvml.free_bytes - asked[0]) > AGREE_BYTES:
        return _from_cuda(card, asked, "NVML and CUDA disagree about free memory")
    return CardMemory(
        nvml.total_bytes, nvml.free_bytes, nvml.own_bytes, nvml.others_bytes, "nvml", nvml.problem
    )


def _ask(cuda: Callable[[], tuple[int, int]] | None) -> tuple[int, int] | None:
    try:
        found = cuda() if cuda is not None else None
    except DriverError:
        return None
    return found if found is not None and 0 <= found[0] <= found[1] else None


def _from_cuda(card: Card, asked: tuple[int, int] | None, why: str) -> CardMemory:
    if asked is None:
        return CardMemory(card.total_bytes, None, None, None, "none", f"{why}; free memory is unknown")
    return CardMemory(asked[1], asked[0], None, None, "cuda", f"{why}; CUDA's own figures are used")
