"""Gathering moments from passes: observers of a chunk's way through the layers."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.forward import LayerObserver
from ebbtide.engine.model.layer import U8, LayerPass
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.moments import F32, F64, Moments, Sums, weighted_squares
from ebbtide.kernels.ops import BlockTable


class Routed(NamedTuple):
    """The rows i64[n], rising, that chose an expert, and the squares f64[n] of their gate weights."""

    rows: NDArray[np.int64]
    weights: F64


def routed_rows(chosen: NDArray[np.int32], gates: F32) -> dict[int, Routed]:
    """Of each chosen expert; chosen[M, k], gates[M, k]."""
    flat = chosen.ravel()
    order = np.argsort(flat, kind="stable")
    experts, starts = np.unique(flat[order], return_index=True)
    squares = np.square(gates.ravel(), dtype=np.float64)
    parts = np.split(order, starts[1:])
    return {
        int(expert): Routed(part // chosen.shape[1], squares[part])
        for expert, part in zip(experts, parts, strict=True)
    }


class InputGatherer:
    """A `LayerObserver` that adds the moments of the experts' inputs to `sums`.

    A pass that was cancelled has been added in part.
    """

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self._routed: dict[int, Routed] = {}

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        sums, rows = self.sums, at.rows
        if layer == 0:
            sums.tokens += len(rows.chosen)
        self._routed = routed_rows(rows.chosen, rows.gates)
        for expert, (tokens, weights) in self._routed.items():
            sums.mass[layer, expert] += weights.sum()
            sums.gate_up[layer, expert] += weighted_squares(rows.normed[tokens], weights)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`: the inputs are all that is wanted."""


class Gatherer(InputGatherer):
    """Adds the moments of the hidden rows too: the operations keep none, so they are computed once more."""

    def __init__(self, spec: ModelSpec, sums: Sums, rows: int) -> None:
        """rows: the most that a pass has."""
        super().__init__(sums)
        self._both: F32 = np.zeros((rows, 2 * spec.expert_d_ff), np.float32)
        self._hidden: F32 = np.zeros((rows, spec.expert_d_ff), np.float32)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`."""
        for expert, (tokens, weights) in self._routed.items():
            if resident[expert]:
                both, hidden = self._both[: len(tokens)], self._hidden[: len(tokens)]
                at.ops.linear(at.rows.normed[tokens], gate_up, both, index=expert)
                at.ops.glu(both, hidden, at.spec.activation)
                self.sums.down[layer, expert] += weighted_squares(hidden, weights)


class Both:
    """Two `LayerObserver`s of the same passes."""

    def __init__(self, first: LayerObserver, second: LayerObserver) -> None:
        self._both = first, second

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        for one in self._both:
            one.routed(layer, at)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`."""
        for one in self._both:
            one.computed(layer, at, gate_up, down, resident)


class _RowCounter(InputGatherer):
    """Counts the rows of each layer too: of a pass that was cancelled, the last layers saw none."""

    def __init__(self, sums: Sums) -> None:
        super().__init__(sums)
        self.rows: NDArray[np.int64] = np.zeros(len(sums.mass), np.int64)

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        super().routed(layer, at)
        self.rows[layer] += len(at.rows.chosen)


class SampledMoments:
    """Moments of inputs alone, from one chunk in `every`: cheap enough to be gathered while a person chats.

    Ask for the observer of each chunk of a prompt in turn; most of them have none.
    """

    def __init__(self, spec: ModelSpec, every: int = 8) -> None:
        self._sums = Sums(spec, hidden=False)
        self._gatherer = _RowCounter(self._sums)
        self._every, self._chunk = every, 0

    @property
    def tokens(self) -> int:
        """Tokens seen so far."""
        return self._sums.tokens

    def next_chunk(self) -> LayerObserver | None:
        """Who looks at the next chunk: nobody, or this. The first one is looked at."""
        turn, self._chunk = self._chunk, (self._chunk + 1) % self._every
        return self._gatherer if turn == 0 else None

    def moments(self) -> Moments:
        """So far; `has_down` is False. `merged` adds them to those that are kept."""
        mass = self._sums.mass / np.maximum(self._gatherer.rows, 1)[:, None]
        return replace(self._sums.moments(), mass=mass)
