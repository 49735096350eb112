"""The weight page table: where each expert's planes are, and how many are wanted, committed, available."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.arena import I32, join_pages
from ebbtide.engine.memory.portions import Portion, portion_of
from ebbtide.engine.memory.slow import KINDS
from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.ops import BlockTable, Pages

U8 = NDArray[np.uint8]
ABSENT = -1


def _present(pages: I32) -> I32:
    present: I32 = pages[pages != ABSENT]
    return present


class LayerLayouts(NamedTuple):
    """The two blocks that make up an expert of one layer."""

    gate_up: BlockLayout
    down: BlockLayout

    def portions(self, width: int = 0) -> tuple[Portion, Portion]:
        """What is kept of both at this width; 0 = all."""
        return portion_of(self.gate_up, width), portion_of(self.down, width)

    def page_count(self, width: int = 0) -> int:
        """Pages of one expert at this width; 0 = whole."""
        return sum(portion.pages for portion in self.portions(width))


class Widths(NamedTuple):
    """An immutable picture of the table: u8[layers, 2 (gate_up, down), experts] each, and its epoch."""

    desired: U8
    committed: U8
    available: U8
    epoch: int


class WeightPageTable:
    """Per block: desired width d, committed width q (what kernels read), available width a, and its pages.

    q is a logical width that eviction leaves alone; a is 0 for an evicted block. Before a kernel reads a
    block, a >= q must hold. `epoch` counts changes of q. The BlockTables share this object's arrays, so an
    edit here is what the next kernel call sees.

    d and q are one `width` for all blocks (0 = all planes), as far as a block has so many planes; only the
    extents that it needs are read and have pages (`portions`).
    """

    def __init__(self, layouts: Sequence[LayerLayouts], experts: int, pages: Pages, width: int = 0) -> None:
        self.layouts, self.experts, self.epoch = tuple(layouts), experts, 0
        self.portions = tuple(pair.portions(width) for pair in self.layouts)
        self.pages_per_expert = tuple(pair.page_count(width) for pair in self.layouts)
        shape = (len(self.layouts), len(KINDS), experts)
        self.committed = np.zeros(shape, np.uint8)
        for layer, portions in enumerate(self.portions):
            for kind, portion in enumerate(portions):
                self.committed[layer, kind] = portion.width
        self.desired = self.committed.copy()
        self.is_exact = self.portions == tuple(pair.portions() for pair in self.layouts)
        """Whether every plane of every block is committed."""
        self.available = np.zeros(shape, np.uint8)
        self.blocks = tuple(
            tuple(self._block_table(layer, kind, layout, pages) for kind, layout in enumerate(pair))
            for layer, pair in enumerate(self.layouts)
        )
        # Bytearrays, because the pager's hit test reads single entries from Python.
        self.resident = tuple(bytearray(experts) for _ in self.layouts)

    def _block_table(self, layer: int, kind: int, layout: BlockLayout, pages: Pages) -> BlockTable:
        table = np.full((self.experts, layout.page_count), ABSENT, np.int32)
        return BlockTable(layout, pages, table, self.committed[layer, kind])

    @property
    def layers(self) -> int:
        return len(self.layouts)

    def attach(self, layer: int, expert: int, pages: I32) -> None:
        """Publish an expert's pages: those of gate_up's portion, then of down's, in virtual order."""
        (gate_up, down), (first, second) = self.blocks[layer], self.portions[layer]
        split = first.pages
        gate_up.page_table[expert, :split], down.page_table[expert, : second.pages] = (
            pages[:split],
            pages[split:],
        )
        self.available[layer, :, expert] = first.planes, second.planes
        self.resident[layer][expert] = 1

    def detach(self, layer: int, expert: int) -> I32:
        """Take an expert out; its pages, which the caller must release. q stays."""
        rows = [block.page_table[expert] for block in self.blocks[layer]]
        pages = join_pages(rows)
        for row in rows:
            row.fill(ABSENT)
        self.available[layer, :, expert] = 0
        self.resident[layer][expert] = 0
        return _present(pages)

    def commit(self, widths: U8) -> None:
        """Make `widths` u8[layers, 2 (gate_up, down), experts] the committed ones: whole, or not at all.

        At safe points only. Raises ValueError for other shapes, for a block that has not so many planes (or
        is to have none), and where a resident block lacks planes that would be read.
        """
        planes = np.array([[layout.planes for layout in pair] for pair in self.layouts], np.uint8)[:, :, None]
        if widths.shape != self.committed.shape or widths.dtype != np.uint8:
            raise ValueError(f"widths {widths.dtype}{widths.shape}, not uint8{self.committed.shape}")
        if (widths < 1).any() or (widths > planes).any():
            raise ValueError("a width that its block has not")
        if ((self.available > 0) & (self.available < widths)).any():
            raise ValueError("a resident block lacks planes of its new width")
        self.committed[:] = self.desired[:] = widths
        self.epoch += 1
        self.is_exact = bool((widths == planes).all())

    def resident_experts(self, layer: int) -> list[int]:
        return [expert for expert, here in enumerate(self.resident[layer]) if here]

    def snapshot(self) -> Widths:
        """Copies of d, q, a that no later change touches."""
        return Widths(self.desired.copy(), self.committed.copy(), self.available.copy(), self.epoch)

    def width_histogram(self) -> dict[str, int]:
        """Blocks by available width, "0" (evicted) to "8": what pages hold, also planes that none uses."""
        counts = np.bincount(self.available.reshape(-1), minlength=9)
        return {str(width): int(count) for width, count in enumerate(counts)}

    def mapped_pages(self) -> I32:
        """Every page in the table, i32[n]."""
        rows = [block.page_table.reshape(-1) for pair in self.blocks for block in pair]
        pages = join_pages(rows)
        return _present(pages)

    def check_integrity(self) -> None:
        """Raise AssertionError unless widths, residency and page tables agree and no page is mapped twice."""
        pages = self.mapped_pages()
        assert len(np.unique(pages)) == len(pages), "a page belongs to two blocks"
        assert (self.committed > 0).all() and (self.committed == self.desired).all(), (
            "a width is not as wished"
        )
        for layer, pair in enumerate(self.blocks):
            here = np.frombuffer(self.resident[layer], np.uint8) != 0
            for kind, block in enumerate(pair):
                available = self.available[layer, kind]
                assert ((available >= block.widths) == here).all(), f"layer {layer}: resident but a < q"
                for expert, width in enumerate(available.tolist()):
                    has_page = block.page_table[expert] != ABSENT
                    needed = block.layout.pages_at_width(width)
                    assert has_page[:needed].all() and not has_page[needed:].any(), (
                        f"layer {layer} expert {expert}: pages"
                    )
