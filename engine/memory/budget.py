"""Budgets as a person writes them: `300MiB`, `8GB`, `40%`, `auto`."""

import re
from dataclasses import dataclass
from typing import Literal

from ebbtide.engine.errors import UsageError
from ebbtide.engine.sizes import MIB

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?|[0-9]{1,3}(?:,[0-9]{3})+)\s*([A-Za-z]*)", re.ASCII)
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)
_HINT = "Write a size such as 300MiB or 8GB, a share of the experts such as 40%, or auto."

_LEAST_HEADROOM_BYTES = 384 * MIB


@dataclass(frozen=True)
class Budget:
    """`bytes`: at most `value` bytes. `percent`: room for `value` % of the experts. `auto`: what is free."""

    kind: Literal["bytes", "percent", "auto"]
    value: float = 0.0


def parse_bytes(text: str) -> int:
    """Bytes of a size such as `300MiB`; MB is 10^6, MiB (and M) 2^20. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a size.", hint=_HINT)
    return int(float(match[1].replace(",", "")) * factor)


def parse_budget(text: str) -> Budget:
    """A `--budget` value. Raises UsageError for anything else, 0 bytes, and more than 100 %."""
    text = text.strip()
    if text.lower() == "auto":
        return Budget("auto")
    match = _PERCENT.fullmatch(text)
    if match:
        percent = float(match[1])
        if percent > 100:
            raise UsageError(f"A budget of {text} is more than all experts.", hint="Give at most 100%.")
        return Budget("percent", percent)
    size = parse_bytes(text)
    if size == 0:
        raise UsageError("A budget of 0 bytes leaves nothing to work with.", hint=_HINT)
    return Budget("bytes", float(size))


def share_bytes(percent: float, expert_bytes: int, page_bytes: int) -> int:
    """`percent` of all experts in whole pages, rounded up."""
    return int(-(-(expert_bytes // page_bytes) * percent // 100)) * page_bytes


def headroom_bytes(total_bytes: int) -> int:
    """What `auto` leaves to others and to the process itself: 1/16 of memory, at least 384 MiB."""
    return max(_LEAST_HEADROOM_BYTES, total_bytes // 16)
