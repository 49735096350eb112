"""`--emulate vram=8GB,pcie=12GB/s`: a large card as a smaller one, or in a slower slot."""

import re
from dataclasses import dataclass, replace

from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.budget import parse_bytes

_HINT = "Write --emulate vram=8GB,pcie=12GB/s, or one of the two."


@dataclass(frozen=True)
class Emulation:
    """None = as the machine is. It slows ebbtide down and limits it; it never makes anything look better."""

    vram_bytes: int | None = None
    pcie_bytes_per_s: int | None = None

    @property
    def sentence(self) -> str:
        """What every output says while it is on; empty when it is off."""
        parts = []
        if self.vram_bytes is not None:
            parts.append(f"{self.vram_bytes / 1e9:g} GB of card memory")
        if self.pcie_bytes_per_s is not None:
            parts.append(f"copies at {self.pcie_bytes_per_s / 1e9:g} GB/s")
        return f"Emulated: {' and '.join(parts)}." if parts else ""

    def card_bytes(self, total: int) -> int:
        """The card's memory as it counts: never more than there is."""
        return total if self.vram_bytes is None else min(total, self.vram_bytes)

    def free_bytes(self, total: int, free: int) -> int:
        """What is free of a card of which so much is: as if another program held what it does not have."""
        return max(0, free - (total - self.card_bytes(total)))

    def seen(self, memory: CardMemory) -> CardMemory:
        """The card's figures as they count."""
        free = memory.free_bytes
        return replace(
            memory,
            total_bytes=self.card_bytes(memory.total_bytes),
            free_bytes=None if free is None else self.free_bytes(memory.total_bytes, free),
        )

    def least_seconds(self, nbytes: int) -> float:
        """How long a copy of `nbytes` has to take at least."""
        return 0.0 if self.pcie_bytes_per_s is None else nbytes / self.pcie_bytes_per_s


def parse_emulation(text: str) -> Emulation:
    """Parse the flag's value; an empty one emulates nothing.

    Raises UsageError for an unknown or doubled name, and for sizes of nothing.
    """
    if not text:
        return Emulation()
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in ("vram", "pcie") or not value or name in found:
            raise UsageError(f"--emulate {text} cannot be read at {part.strip()!r}", hint=_HINT)
        if name == "pcie":
            value, count = re.subn(r"/s$", "", value)
            if not count:
                raise UsageError(f"pcie={value} is not a rate", hint=_HINT)
        found[name] = parse_bytes(value)
        if found[name] == 0:
            raise UsageError(f"--emulate {name} of nothing leaves nothing to work with", hint=_HINT)
    return Emulation(found.get("vram"), found.get("pcie"))
