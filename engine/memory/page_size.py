"""The page size of a model: a multiple of 4 KiB that suits its expert planes and its KV alike.

Waste is the padding's share of what is paid for: pages at full width, pages at `REDUCED_PLANES` (when planes
have been given up), and KV pages that hold whole multiples of 8 tokens. Good sizes are rare, so all are
tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.kernels.layout import BlockLayout, MatrixShape, block_layout

STEP_BYTES = 4096
SMALLEST_BYTES, LARGEST_BYTES = 16 << 10, 256 << 10
TOKEN_MULTIPLE = 8
REDUCED_PLANES = 3
GOOD_WASTE = 0.03

_IDEAL_TOKENS = 32
_OCTAVE_COST = 0.005
"""Waste that a page of half or twice `_IDEAL_TOKENS` must save; the cost grows with the square of the
distance. Short pages mean long tables and short attention loops, long ones an open tail that lies idle in
every layer."""

Layouts = Callable[[int], Sequence[tuple[BlockLayout, int]]]
"""page_bytes -> the model's distinct expert block layouts, each with how many blocks have it."""


@dataclass(frozen=True)
class PageSize:
    """A choice. `tokens` is T of a BF16 page (FP8: 2T). Wastes are fractions of the pages' bytes."""

    page_bytes: int
    tokens: int
    full_waste: float
    reduced_waste: float
    kv_waste: float

    @property
    def waste(self) -> float:
        return max(self.full_waste, self.reduced_waste, self.kv_waste)

    @property
    def reason(self) -> str:
        """Empty for a good choice; else why pages waste more than 3 %."""
        if self.waste <= GOOD_WASTE:
            return ""
        parts = (
            (self.full_waste, "expert blocks"),
            (self.reduced_waste, f"expert blocks at {REDUCED_PLANES} planes"),
            (self.kv_waste, f"KV pages of {self.tokens} tokens"),
        )
        worst, what = max(parts)
        return (
            f"pages of {self.page_bytes >> 10} KiB waste {100 * worst:.1f} % on {what}: no size from "
            f"{SMALLEST_BYTES >> 10} to {LARGEST_BYTES >> 10} KiB fits planes and KV better"
        )


def _data_at_width(layout: BlockLayout, width: int) -> int:
    planes = max(width, layout.floor_planes)
    return sum(
        view.shape.meta_bytes + view.shape.plane_bytes * min(planes, view.shape.format.planes)
        for view in layout.views
    )


def _weight_waste(layouts: Sequence[tuple[BlockLayout, int]], width: int) -> float:
    data = sum(count * _data_at_width(layout, width) for layout, count in layouts)
    paid = sum(count * layout.pages_at_width(width) * layout.page_bytes for layout, count in layouts)
    return 1.0 - data / paid if paid else 0.0


def evaluate(page_bytes: int, layouts: Layouts, kv_bytes_per_token: int) -> PageSize | None:
    """Waste at one page size; None when not even 8 tokens fit. `kv_bytes_per_token`: one layer, BF16, K and
    V."""
    tokens = page_bytes // kv_bytes_per_token // TOKEN_MULTIPLE * TOKEN_MULTIPLE
    if tokens == 0:
        return None
    blocks = layouts(page_bytes)
    kv_waste = 1.0 - tokens * kv_bytes_per_token / page_bytes
    return PageSize(
        page_bytes, tokens, _weight_waste(blocks, 8), _weight_waste(blocks, REDUCED_PLANES), kv_waste
    )


def choose(layouts: Layouts, kv_bytes_per_token: int) -> PageSize:
    """The size with least waste; among near equals, the one whose KV pages hold about 32 tokens.

    Raises ValueError when no size holds 8 tokens.
    """
    sizes = range(SMALLEST_BYTES, LARGEST_BYTES + 1, STEP_BYTES)
    found = [size for b in sizes if (size := evaluate(b, layouts, kv_bytes_per_token))]
    if not found:
        raise ValueError(f"no page holds {TOKEN_MULTIPLE} tokens of {kv_bytes_per_token} bytes")
    return min(found, key=_cost)


def _cost(size: PageSize) -> float:
    return size.waste + _OCTAVE_COST * math.log2(size.tokens / _IDEAL_TOKENS) ** 2


def layouts_of(blocks: Sequence[tuple[Sequence[MatrixShape], int]], floor_planes: int) -> Layouts:
    """`Layouts` for blocks given as (matrices of the block, how many such blocks)."""

    def lay_out(page_bytes: int) -> list[tuple[BlockLayout, int]]:
        return [
            (block_layout(list(shapes), page_bytes=page_bytes, floor_planes=floor_planes), count)
            for shapes, count in blocks
        ]

    return lay_out
