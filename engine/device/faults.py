"""What an error from a card means: it is full, or lost. Told by the driver's codes and by torch's words."""

from collections.abc import Iterator
from typing import Literal

from ebbtide.engine.device.driver import DriverError

CardFault = Literal["", "full", "lost"]
_WORDS = ("CUDA error", "CUDA driver error", "CUDA out of memory", "[CUDA]")
"""How torch's and Triton's errors begin, or are marked."""


def card_fault(error: BaseException) -> CardFault:
    """What happened to the card.

    "lost": the context is gone with all of its memory (unplugged, reset, a fault inside a kernel). "full":
    something could not be allocated, all else is as before. Empty: the error is not a card's.
    """
    kinds = {_fault_of(each) for each in _chain(error)}
    return "lost" if "lost" in kinds else "full" if "full" in kinds else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        yield each
        each = each.__cause__


def _fault_of(error: BaseException) -> CardFault:
    if isinstance(error, DriverError):
        if error.out_of_memory:
            return "full"
        return "lost" if error.code else ""
    if not isinstance(error, RuntimeError) or not any(word in str(error) for word in _WORDS):
        return ""
    return "full" if "out of memory" in str(error) else "lost"
