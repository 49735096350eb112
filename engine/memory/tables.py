"""The weight page table: where each expert's planes are, and how many are wanted, committed, available."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.arena import I32, join_pages
from ebbtide.engine.memory.portions import I64, U8, Portion, Portions, portion_of
from ebbtide.engine.memory.slow import KINDS
from ebbtide.kernels.layout import MAX_PLANES, BlockLayout
from ebbtide.kernels.ops import BlockTable, Pages

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

    q is a logical width that eviction leaves alone; a is 0 for an evicted block, and for one that is here a
    >= q always holds. d differs from q while a change is under way (`change.py`) only. `epoch` counts commits
    that changed q. The BlockTables share this object's arrays, so an edit here is what the next kernel call
    sees.

    All of it is u8[layers, 2 (gate_up, down), experts]. At first d and q are `width` for all blocks (0 = all
    planes), as far as a block has so many planes.
    """

    def __init__(self, layouts: Sequence[LayerLayouts], experts: int, pages: Pages, width: int = 0) -> None:
        self.layouts, self.experts, self.epoch = tuple(layouts), experts, 0
        self._portions = Portions(self.layouts)
        self.most = self._portions.most
        """Planes of the blocks, u8[layers, 2, 1]."""
        shape = (len(self.layouts), len(KINDS), experts)
        self.committed = np.zeros(shape, np.uint8)
        self.committed[:] = np.minimum(self.most, width or MAX_PLANES)
        self.desired = self.committed.copy()
        self.is_exact = self._is_whole()
        """Whether every plane of every block is committed."""
        self.available = np.zeros(shape, np.uint8)
        self.held = [0] * len(self.layouts)
        """Pages that each layer's experts have in the table."""
        self.has_surplus = False
        """Whether a block may hold planes above both its q and its d (`shed`)."""
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

    # --- widths -------------------------------------------------------------------------------------------

    @property
    def reach(self) -> U8:
        """The width at which an absent block is read: q, or d where that is more."""
        return np.maximum(self.committed, self.desired)

    def pages_of(self, widths: U8) -> I64:
        """Pages of each expert, both blocks, at `widths`: i64[layers, experts]."""
        pages: I64 = self.block_pages_of(widths).sum(axis=1)
        return pages

    def block_pages_of(self, widths: U8) -> I64:
        """Pages of each block at `widths`: i64[layers, 2, experts]; at width 0 they mean nothing."""
        return self._portions.pages(widths)

    def portions(self, layer: int, expert: int) -> tuple[Portion, Portion]:
        """What is read of an absent expert now."""
        q, d = self.committed[layer, :, expert].tolist(), self.desired[layer, :, expert].tolist()
        gate_up, down = (self._portions.at(layer, kind, max(q[kind], d[kind])) for kind in range(len(KINDS)))
        return gate_up, down

    def check_widths(self, widths: U8) -> None:
        """Raise ValueError unless these are widths that every block can have."""
        if widths.shape != self.committed.shape or widths.dtype != np.uint8:
            raise ValueError(f"{widths.dtype} {widths.shape} are not widths u8 {self.committed.shape}")
        if not ((widths >= 1) & (widths <= self.most)).all():
            raise ValueError("a width is 0, or more than its block has planes")

    def wish(self, widths: U8) -> None:
        """Set d."""
        self.desired[:] = widths

    def commit(self, widths: U8) -> None:
        """Set q and d, of all blocks or of none. Between steps only.

        Raises ValueError, and changes nothing, for widths that cannot be, or where a block is here with fewer
        planes. Pages stay as they are: what is above the new widths is left to `shed`.
        """
        self.check_widths(widths)
        if ((self.available > 0) & (self.available < widths)).any():
            raise ValueError("a block is in memory with fewer planes than are committed")
        if not np.array_equal(self.committed, widths):
            self.has_surplus = self.has_surplus or bool((widths < self.committed).any())
            self.committed[:] = widths
            self.epoch += 1
            self.is_exact = self._is_whole()
        self.desired[:] = widths

    def _is_whole(self) -> bool:
        return bool((self.committed == self.most).all())

    # --- pages --------------------------------------------------------------------------------------------

    def attach(self, layer: int, expert: int, pages: I32, portions: tuple[Portion, Portion]) -> None:
        """Publish an expert's pages: those of gate_up's portion, then of down's, in virtual order."""
        (gate_up, down), (first, second) = self.blocks[layer], portions
        split = first.pages
        gate_up.page_table[expert, :split], down.page_table[expert, : second.pages] = (
            pages[:split],
            pages[split:],
        )
        self.available[layer, :, expert] = first.planes, second.planes
        self.resident[layer][expert] = 1
        self.held[layer] += len(pages)
        if portions != self.portions(layer, expert):
            self.has_surplus = True  # what was wished for when its read began is not wished for any more

    @property
    def is_lacking(self) -> NDArray[np.bool_]:
        """Whether a block is here with fewer planes than are wished for, bool[layers, 2, experts]."""
        return (self.available > 0) & (self.available < self.desired)

    @property
    def lacking_pages(self) -> int:
        """Pages that those blocks lack."""
        lacking = self._portions.pages(self.desired) - self._portions.pages(self.available)
        return int(lacking[self.is_lacking].sum())

    def missing(self, layer: int, kind: int, expert: int) -> tuple[Portion, Portion] | None:
        """(what a block that is here has, what it needs for d); None when that is no more."""
        available = int(self.available[layer, kind, expert])
        desired = int(self.desired[layer, kind, expert])
        if available >= desired:
            return None
        return self._portions.at(layer, kind, available), self._portions.at(layer, kind, desired)

    def extend(self, layer: int, kind: int, expert: int, pages: I32, portion: Portion) -> None:
        """Publish further pages of a block that is here: with them it has `portion`."""
        self.blocks[layer][kind].page_table[expert, portion.pages - len(pages) : portion.pages] = pages
        self.available[layer, kind, expert] = portion.planes
        self.held[layer] += len(pages)

    def detach(self, layer: int, expert: int) -> I32:
        """Take an expert out; its pages, which the caller must release. q stays."""
        rows = [block.page_table[expert] for block in self.blocks[layer]]
        pages = _present(join_pages(rows))
        for row in rows:
            row.fill(ABSENT)
        self.available[layer, :, expert] = 0
        self.resident[layer][expert] = 0
        self.held[layer] -= len(pages)
        return pages

    def shed(self, least: U8 | None = None) -> I32:
        """Take out the planes of resident blocks above q and d (and above `least`, if it is given); their
        pages, which the caller must release.
        """
        kept = self._portions.planes(self.reach)
        self.has_surplus = False
        if least is not None:
            self.has_surplus = bool((np.minimum(self.available, least) > kept).any())
            kept = np.maximum(kept, least)
        over = self.available > kept
        parts = []
        for layer, kind in np.argwhere(over.any(axis=2)).tolist():
            experts = np.flatnonzero(over[layer, kind])
            planes = kept[layer, kind, experts]
            parts.append(self._cut(layer, kind, experts, planes))
            self.available[layer, kind, experts] = planes
            self.held[layer] -= len(parts[-1])
        return join_pages(parts)

    def _cut(self, layer: int, kind: int, experts: I64, planes: U8) -> I32:
        """Take the pages out of the rows of `experts` that are not needed for so many planes."""
        table = self.blocks[layer][kind].page_table
        rows, needed = table[experts], self._portions.pages_in(layer, kind, planes)[:, None]
        gone = (np.arange(rows.shape[1]) >= needed) & (rows != ABSENT)
        pages: I32 = rows[gone]
        rows[gone] = ABSENT
        table[experts] = rows
        return pages

    # --- figures and checks -------------------------------------------------------------------------------

    @property
    def pages_per_expert(self) -> tuple[int, ...]:
        """Pages of the expert of each layer that needs most, at q."""
        return tuple(self.pages_of(self.committed).max(axis=1).tolist())

    def resident_experts(self, layer: int) -> list[int]:
        return [expert for expert, here in enumerate(self.resident[layer]) if here]

    def snapshot(self) -> Widths:
        """Copies of d, q, a that no later change touches."""
        return Widths(self.desired.copy(), self.committed.copy(), self.available.copy(), self.epoch)

    def width_histogram(self) -> dict[str, int]:
        """Blocks by available width, "0" (evicted) to "8": what pages hold, also planes that none uses."""
        counts = np.bincount(self.available.reshape(-1), minlength=MAX_PLANES + 1)
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
        assert (self.committed > 0).all() and (self.desired > 0).all(), "a width is 0"
        assert self.is_exact == self._is_whole(), "what is exact is not known"
        is_over = (self.available > self._portions.planes(self.reach)).any()
        assert self.has_surplus or not is_over, "planes are kept that nobody asked for"
        for layer, pair in enumerate(self.blocks):
            here = np.frombuffer(self.resident[layer], np.uint8) != 0
            held = 0
            for kind, block in enumerate(pair):
                available = self.available[layer, kind]
                assert ((available >= block.widths) == here).all(), f"layer {layer}: resident but a < q"
                has_page = block.page_table != ABSENT
                needed = self._portions.pages_in(layer, kind, available)
                wanted = np.arange(has_page.shape[1]) < needed[:, None]
                assert (has_page == wanted).all(), f"layer {layer}: pages"
                held += int(needed.sum())
            assert held == self.held[layer], f"layer {layer}: miscounted pages"
