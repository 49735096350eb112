"""How much the experts of each layer err at lower widths, passage by passage, to learn prompt residuals.

The rows of a passage go through the experts a second time, at widths below those in use, and the difference
is kept as one number a layer:

    error = mean over tokens of sum over the chosen experts of g^2 |y - y_lower|^2

The passage itself goes on with what came out at the widths in use.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.layer import U8, LayerPass
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.hull import F64
from ebbtide.kernels.ops import BlockTable

F32 = NDArray[np.float32]

ROWS = 64
"""So many are computed at once, so that the outputs of large models stay small."""
SHARE = 0.6
"""Of its planes that a block is measured with: 5 of 8, where plans have most of them."""


def lower_widths(planes: U8) -> U8:
    """Widths to measure at, of blocks with so many planes: below all of them where there are two."""
    lower = np.minimum(np.ceil(SHARE * planes), planes - 1.0)
    widths: U8 = np.maximum(lower, 1).astype(np.uint8)
    return widths


class PromptErrors:
    """A `LayerObserver` of one passage: `errors` f64[layers] and what it routed to. `begin` before each."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._pairs: F32 = np.zeros((ROWS, spec.top_k, spec.d_model), np.float32)

    def begin(self) -> None:
        """A new passage."""
        self._sums, self._tokens = np.zeros(self._spec.layers), 0
        self._mass: F64 = np.zeros((self._spec.layers, self._spec.experts))
        self._layer, self._squares = 0, np.zeros((0, 0))

    @property
    def errors(self) -> F64:
        """f64[layers], a token."""
        self._add_up()
        return self._sums / max(self._tokens, 1)

    @property
    def mass(self) -> F64:
        """f64[layers, experts]: squared gates, a token."""
        return self._mass / max(self._tokens, 1)

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        rows = at.rows
        self._add_up()
        self._layer, self._squares = layer, np.zeros(rows.chosen.shape)
        if layer == 0:
            self._tokens += len(rows.chosen)
        squares = np.square(rows.gates, dtype=np.float64).ravel()
        self._mass[layer] += np.bincount(rows.chosen.ravel(), squares, minlength=self._spec.experts)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`."""
        rows, low_gate_up, low_down = at.rows, _lowered(gate_up), _lowered(down)
        for first in range(0, len(rows.chosen), ROWS):
            some = slice(first, first + ROWS)
            chosen, full = rows.chosen[some], rows.pairs[some]
            pairs = self._pairs[: len(chosen)]
            normed = rows.normed[some]
            at.ops.moe(normed, chosen, resident, low_gate_up, low_down, pairs, at.spec.activation)
            squares = np.square(full - pairs, dtype=np.float64).sum(axis=2)
            squares *= np.square(rows.gates[some], dtype=np.float64)
            self._squares[some] += np.where(resident[chosen] != 0, squares, 0.0)

    def _add_up(self) -> None:
        """All experts of a layer at once: the sum must not depend on the groups that they came in."""
        self._sums[self._layer] += self._squares.sum()
        self._squares = np.zeros((0, 0))


def _lowered(table: BlockTable) -> BlockTable:
    """The same blocks at lower widths; those that are absent stay so."""
    widths = np.where(table.widths > 0, lower_widths(table.widths), 0).astype(np.uint8)
    return replace(table, widths=widths, native={})
