"""What a model routes to while it answers, for the planner: gathered once a pass, added up now and then."""

import numpy as np

from ebbtide.engine.model.layer import U8, LayerPass
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.routing_mass import F32, I32, RoutingMass
from ebbtide.kernels.ops import BlockTable

HALF_LIFE_TOKENS = 1024.0
"""About a turn or two: shorter, and a plan follows single sentences; longer, and it misses a new subject."""
TOGETHER = 16
"""Tokens whose routes are added up at once: one by one, numpy's calls would cost more than the sums."""


class Routes:
    """A `RouteObserver` that keeps the mass of every expert. Used by the step thread.

    `prior` f64[layers, experts]: a calibration's mass, or None.
    """

    def __init__(self, layers: int, experts: int, prior: F64 | None) -> None:
        self.routing = RoutingMass(layers, experts, HALF_LIFE_TOKENS, prior=prior)
        self.tokens = 0
        """Seen so far."""
        self._chosen: I32 = np.zeros((layers, TOGETHER, 0), np.int32)
        self._gates: F32 = np.zeros((layers, TOGETHER, 0), np.float32)
        self._kept = 0

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        if layer == 0:
            self.add_up()
            self.tokens += len(at.rows.chosen)
        self.routing.note(layer, at.rows.chosen, at.rows.gates)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`: what was chosen is all that is wanted."""

    def token(self, chosen: I32, gates: F32) -> None:
        """See `RouteObserver.token`."""
        if self._chosen.shape[2] != chosen.shape[2]:
            shape = (*self._chosen.shape[:2], chosen.shape[2])
            self._chosen, self._gates = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        self._chosen[:, self._kept], self._gates[:, self._kept] = chosen[:, 0], gates[:, 0]
        self._kept, self.tokens = self._kept + 1, self.tokens + 1
        if self._kept == TOGETHER:
            self.add_up()

    def add_up(self) -> None:
        """Bring the mass up to date."""
        if self._kept:
            self.routing.note_pass(self._chosen[:, : self._kept], self._gates[:, : self._kept])
            self._kept = 0
