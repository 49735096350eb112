"""Widths for the memory systems of `memory_fakes`, and reads of further planes that a test holds back."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.mover import Mover
from ebbtide.engine.memory.reads import BlockRead
from ebbtide.engine.memory.slow import ExpertSource, Kind
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.memory.trickle import Trickle
from tests.helpers.memory_fakes import EXPERTS, LAYERS, FakeSource, System, layouts
from tests.helpers.waiting import PATIENCE_S

U8 = NDArray[np.uint8]
MOST: U8 = np.array([[[layout.planes] for layout in pair] for pair in layouts()], np.uint8)


def even(width: int) -> U8:
    """`width` for all blocks, as far as they have so many planes."""
    return np.broadcast_to(np.minimum(MOST, width), (LAYERS, 2, EXPERTS)).astype(np.uint8)


def pages_of(system: System, layer: int, expert: int) -> list[int]:
    """Pages of both blocks."""
    blocks = system.pager.gate_up(layer), system.pager.down(layer)
    return [int((block.page_table[expert] >= 0).sum()) for block in blocks]


def picture(table: WeightPageTable) -> list[object]:
    """All that a change may change: d, q, a, epoch, page tables."""
    widths = table.snapshot()
    pages = [block.page_table.tolist() for pair in table.blocks for block in pair]
    arrays = (widths.desired, widths.committed, widths.available)
    return [*(part.tolist() for part in arrays), widths.epoch, pages]


class Late(FakeSource):
    """Reads of further planes wait while `behind` is cleared; others do not. `broken_behind`: they fail."""

    def __init__(self) -> None:
        super().__init__()
        self.behind = threading.Event()
        self.behind.set()
        self.broken_behind: set[tuple[int, int]] = set()

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[tuple[int, int]],
    ) -> int:
        if first_extent:
            assert self.behind.wait(PATIENCE_S), "a test forgot to let reads go on"
            if (layer, expert) in self.broken_behind:
                raise OSError("the disk says no")
        return super().read_expert(layer, expert, kind, first_extent, last_extent, targets)


class HeldMover(Mover):
    """Reads further planes when the test says so, on the test's thread."""

    def __init__(self, source: ExpertSource) -> None:
        super().__init__(source)
        self.trickles: list[Trickle] = []

    def trickle(self, reads: Sequence[BlockRead]) -> Trickle:
        self.trickles.append(Trickle(self._source, reads))
        return self.trickles[-1]

    def work(self, blocks: int) -> None:
        """Read so many blocks, or all there are."""
        for _ in range(blocks):
            if not any(trickle.read_one() for trickle in self.trickles):
                return
