"""What the any-precision codes of a pack are made from, beside the model's weights."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ebbtide.engine.model.mapping import Kind, ModelMap, Parts
from ebbtide.engine.weights.any_precision import SEED_WIDTH
from ebbtide.engine.weights.codes import F32
from ebbtide.engine.weights.pack_index import Books
from ebbtide.engine.weights.source import Shapes
from ebbtide.kernels.layout import OWN_FORMATS, MatrixShape

PLANES = 6
"""Entries of 8 bits are fine enough for so many (any_precision.py)."""


class InputMoments(Protocol):
    """Mean squares of what the experts' matrices are multiplied with."""

    @property
    def gate_up(self) -> F32:
        """f32[layers, experts, D]"""
        ...

    @property
    def down(self) -> F32:
        """f32[layers, experts, d_ff]"""
        ...


def moments_sha256(moments: InputMoments | None) -> str:
    """Tells moments apart; empty = there are none."""
    if moments is None:
        return ""
    digest = hashlib.sha256()
    for array in (moments.gate_up, moments.down):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class BookWish:
    """Every matrix of every expert gets a code book of its own.

    One for a matrix and not for a row: tables for widths 1 to 6 take 128 bytes, which is nothing beside a
    matrix, but as much as a whole plane of a row of 1,024. What rows and groups differ in, their scales tell.
    """

    moments: InputMoments | None = None
    """Weigh the errors; None = all inputs count alike."""
    planes: int = PLANES
    seed_width: int = SEED_WIDTH

    def record(self) -> Books:
        """For the pack's index."""
        return Books(self.planes, self.seed_width, moments_sha256(self.moments))

    def shapes(self, parts: Parts) -> Shapes:
        """Matrices of a block: with as many planes as are wished for, or as the model's own codes have."""
        return tuple(
            MatrixShape(part.rows, part.cols, OWN_FORMATS[f"AP{min(self.planes, part.shape.format.planes)}"])
            for part in parts
        )

    def expert_shapes(self, weights: ModelMap) -> dict[tuple[int, Kind], Shapes]:
        """As `source.expert_shapes`."""
        return {at: self.shapes(blocks[0]) for at, blocks in weights.experts.items()}

    def moments_of(self, layer: int, kind: Kind, expert: int) -> F32 | None:
        """f32[K] of a block."""
        if self.moments is None:
            return None
        rows: F32 = self.moments.gate_up if kind == "gate_up" else self.moments.down
        return np.ascontiguousarray(rows[layer, expert])
