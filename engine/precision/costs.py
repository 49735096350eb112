"""What a block of experts costs in memory at each width, without the padding of pages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.sizes import mib_words
from ebbtide.kernels.layout import MAX_PLANES, BlockLayout

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

WIDTHS = MAX_PLANES + 1
"""Entries of an array over widths: 0 (the block is left out) to all planes that any block has."""


@dataclass(frozen=True)
class Costs:
    """Of the blocks of a model's experts; every expert of a layer has the same layouts.

    A matrix of a block that has fewer planes than the block's width is used with all of its own.
    """

    experts: int
    planes: U8
    """u8[layers, 2]: planes of the widest matrix."""
    scale_bytes: I64
    """i64[layers, 2]: scales and minima of one block."""
    plane_bytes: I64
    """i64[layers, 2, WIDTHS]: planes of one block at every width."""
    weight_bits: I64
    """i64[layers, 2]: weights of one block, rows that fill up a strip included."""

    @classmethod
    def of(cls, layouts: Sequence[LayerLayouts], experts: int) -> "Costs":
        """Of the layers' layouts."""
        pairs = [[_figures(layout) for layout in pair] for pair in layouts]
        planes, scales, bits, at_widths = (np.array(part) for part in _columns(pairs))
        return cls(experts, planes.astype(np.uint8), scales, at_widths, bits)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of arrays over blocks: layers, 2 (gate_up, down), experts."""
        return (*self.planes.shape, self.experts)

    def block_bytes(self) -> I64:
        """i64[layers, 2, WIDTHS]: of one block; at width 0 nothing of it is there."""
        total: I64 = self.plane_bytes + self.scale_bytes[:, :, None]
        total[:, :, 0] = 0
        return total

    def expert_bytes(self, widths: U8) -> int:
        """Of all experts at these widths u8[layers, 2, experts]."""
        return int(np.take_along_axis(self.block_bytes(), widths.astype(np.int64), axis=2).sum())

    def average_bits(self, widths: U8) -> float:
        """Planes in use per expert weight, scales left out, at these widths."""
        used = np.take_along_axis(self.plane_bytes, widths.astype(np.int64), axis=2).sum()
        return float(8 * used / (self.weight_bits.sum() * self.experts))

    def full(self) -> U8:
        """u8[layers, 2, experts]: every plane of every block."""
        return np.repeat(self.planes[:, :, None], self.experts, axis=2)

    @property
    def most_bits(self) -> float:
        """The average with every plane."""
        return self.average_bits(self.full())

    @property
    def bytes_in_16_bits(self) -> int:
        """Of all expert weights in 16 bits each, without scales."""
        return int(2 * self.weight_bits.sum() * self.experts)

    def target_bytes(self, bits: float) -> int:
        """What all scales and an average of `bits` planes take.

        Raises UsageError where no widths have that average, with those that can be had.
        """
        one = np.ones(self.shape, np.uint8)
        if not 1 <= bits <= self.most_bits:
            least, most = (mib_words(self.expert_bytes(widths)) for widths in (one, self.full()))
            raise UsageError(
                f"--bits {bits:g} cannot be had: this model's experts have 1 to {self.most_bits:g} planes on "
                f"average, {least} to {most}.",
                hint=f"Give --bits 1 to {self.most_bits:g}.",
            )
        planes = bits * self.weight_bits.sum() / 8
        return int((self.scale_bytes.sum() + planes) * self.experts)


def _figures(layout: BlockLayout) -> tuple[int, int, int, list[int]]:
    shapes = [view.shape for view in layout.views]
    at_widths = [sum(s.plane_bytes * min(w, s.format.planes) for s in shapes) for w in range(WIDTHS)]
    scales, weights = sum(s.meta_bytes for s in shapes), sum(8 * s.plane_bytes for s in shapes)
    return layout.planes, scales, weights, at_widths


def _columns(pairs: list[list[tuple[int, int, int, list[int]]]]) -> list[list[list[object]]]:
    return [[[block[part] for block in pair] for pair in pairs] for part in range(4)]
