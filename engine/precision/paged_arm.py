"""The arm `paged`: widths that follow what is routed while a text is computed, always at the same bytes.

It begins with what calibration knows about routing. From then on it sees which experts its own rows choose,
and with which gates (never those of a run with every plane: a chat has none), and after every `EVERY_TOKENS`
tokens the planner decides anew. So widths depend on earlier tokens alone, and on where a text begins.

*With a signal removed* (`--without`):

    sensitivity  all weights are alike (`even_damage`), and so are layers and kinds: routing alone decides
    routing      nobody knows which experts are asked for: all of a layer have its mean mass. Calibration's
                 mass is routing as well, only older, so to leave just the new part out is ...
    movement     ... this: planned once from calibration's mass, and never changed, which is `static`
    residual     prompts are alike
"""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.messages import Signal
from ebbtide.engine.model.forward import LayerObserver
from ebbtide.engine.model.layer import LayerPass
from ebbtide.engine.precision.arms import even_damage
from ebbtide.engine.precision.byte_planner import BytePlanner
from ebbtide.engine.precision.costs import U8, Costs
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.precision.routing_mass import RoutingMass, block_weights
from ebbtide.kernels.ops import BlockTable

F32 = NDArray[np.float32]

EVERY_TOKENS = 64
"""Chosen by hand: no other interval has been compared like for like."""
HALF_LIFE_TOKENS, PRIOR_TOKENS = 512.0, 64.0
"""KL at 5 bits of the starter, against never changing, on passages of 512 tokens of calibration text: -5.4 %;
with 256 and 256 -3.0 %, with 128 and 128 -3.2 %, with 64 and 64 -3.1 % (standard error 0.9 to 1.5 %); on
other passages -1.7 % (3 %). The first figure chose itself among these, so it is too good. One
model, one average and one interval; what the planner's `HYSTERESIS` does here has not been measured.
"""


class PagedArm:
    """A `LayerObserver` for the arm's own passes, of at most `EVERY_TOKENS` tokens that end at its multiples.

    damage f64[layers, 2, experts, WIDTHS] and mass f64[layers, experts] as calibration has them (None: then
    all experts of a layer are alike at first); unit f64[layers, 2]: see units.py;
    residuals: see prompt_residual.py. Raises UsageError for an
    average of `bits` that cannot be had.
    """

    piece_tokens = step_tokens = EVERY_TOKENS
    read_bits = 0.0

    def __init__(
        self,
        costs: Costs,
        bits: float,
        damage: F64,
        mass: F64 | None,
        unit: F64 | None = None,
        residuals: PromptResiduals | None = None,
        without: Signal = "",
    ) -> None:
        self._costs, self._target_bytes = costs, costs.target_bytes(bits)
        self._follows = without not in ("routing", "movement")
        self._prior, self._unit = mass, unit
        self._residuals = None if without == "residual" else residuals
        if without == "routing" and mass is not None:
            self._prior = np.repeat(mass.mean(axis=1, keepdims=True), costs.experts, axis=1)
        if without == "sensitivity":
            damage, self._unit, self._residuals = even_damage(costs), None, None
        self._planner = BytePlanner(damage, costs)
        self.observer: LayerObserver | None = self
        self.begin()

    def begin(self) -> None:
        """A new text, about which nothing is known: as a new chat."""
        layers, _, experts = self._costs.shape
        self._mass = RoutingMass(
            layers, experts, HALF_LIFE_TOKENS, prior=self._prior, prior_tokens=PRIOR_TOKENS
        )
        self.widths: U8 = self._planner.widths(self._weights(), self._target_bytes)
        """u8[layers, 2, experts], for the next pass."""

    def ahead(self, embeddings: F32) -> None:
        """What tokens are says nothing here: what they choose does."""

    def replan(self) -> None:
        """Behind a pass: choose the widths for the next one."""
        if self._follows:
            self.widths = self._planner.widths(self._weights(), self._target_bytes, self.widths)

    def _weights(self) -> F64:
        mass = self._mass.mass()
        residual = self._residuals.of(mass) if self._residuals is not None and self._follows else None
        return block_weights(mass, residual, self._unit)

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        self._mass.note(layer, at.rows.chosen, at.rows.gates)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`."""
