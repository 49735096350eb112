"""The slow tier as the pager sees it: something that reads parts of an expert's block into memory."""

from collections.abc import Sequence
from typing import Literal, Protocol

Kind = Literal["gate_up", "down"]
KINDS: tuple[Kind, Kind] = ("gate_up", "down")


class ExpertSource(Protocol):
    """Reads expert blocks; safe to call from several threads at once."""

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[tuple[int, int]],
    ) -> int:
        """Read extents `first_extent` to `last_extent` (inclusive) of a block's address space.

        `targets` are (address, bytes) of whole pages in virtual order, from the start of the first extent.
        Returns the bytes read from the slow tier. Raises EbbtideError or OSError.
        """
        ...
