"""One read of the slow tier."""

from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.engine.errors import EbbtideError, ModelError
from ebbtide.engine.memory.slow import ExpertSource, Kind


class BlockRead(NamedTuple):
    """One block to read, from `first_extent` to `last_extent`, into (address, bytes) targets."""

    layer: int
    expert: int
    kind: Kind
    last_extent: int
    targets: list[tuple[int, int]]
    first_extent: int = 0


def read_block(source: ExpertSource, read: BlockRead, targets: Sequence[tuple[int, int]]) -> int:
    """Read one block into (address, bytes) targets; bytes read. Whatever fails is an EbbtideError."""
    try:
        return source.read_expert(
            read.layer, read.expert, read.kind, read.first_extent, read.last_extent, targets
        )
    except EbbtideError:
        raise
    except Exception as error:
        raise ModelError(
            f"Reading expert {read.expert} of layer {read.layer} ({read.kind}) failed: {error}.",
            hint="Check that the model file is still there and its disk works, then load it again.",
        ) from error
