"""Which computation made a KV block: what an exact request must know before it reuses it."""

from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Literal

KvFormat = Literal["bf16", "fp8"]


class Lane(IntFlag):
    """The lanes that wrote into a block; a prompt's last block usually has both."""

    PREFILL = 1
    DECODE = 2


@dataclass(frozen=True)
class Provenance:
    """`width_epoch`: the weight page table's at the time. `exact`: every plane was committed."""

    lanes: Lane
    format: KvFormat = "bf16"
    width_epoch: int = 0
    exact: bool = True

    def merge(self, other: "Provenance") -> "Provenance":
        """Provenance of a block written by both: exact only if both are."""
        return replace(
            self,
            lanes=self.lanes | other.lanes,
            width_epoch=max(self.width_epoch, other.width_epoch),
            exact=self.exact and other.exact,
        )
