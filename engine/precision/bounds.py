"""Bounds that a person sets to the widths of single experts."""

from typing import NamedTuple

import numpy as np

from ebbtide.engine.precision.hull import U8


class Bounds(NamedTuple):
    """u8[layers, 2 (gate_up, down), experts] each; nobody changes them, so a planner's thread may have them.

    A block is held where both are the same and `least` is above 0.
    """

    least: U8
    """0 = no bound."""
    most: U8
    """The planes of the block, where nobody holds it lower."""

    @classmethod
    def none(cls, most: U8) -> "Bounds":
        """No bound, for blocks of so many planes."""
        return cls(np.zeros_like(most), most.copy())

    def changed(self, layer: int, expert: int, least: U8, most: U8) -> "Bounds":
        """The same with other bounds u8[2] of one expert."""
        new = Bounds(self.least.copy(), self.most.copy())
        new.least[layer, :, expert], new.most[layer, :, expert] = least, most
        return new

    def floors(self, floors: U8) -> U8:
        """Floors between these bounds: no lower than `least`, and no higher than `most`."""
        return np.minimum(np.maximum(floors, self.least), self.most).astype(np.uint8)
