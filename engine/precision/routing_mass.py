"""What experts are asked for: the decayed sum of their squared gate weights, layer by layer.

*Units.* A token's output has the error g * dW x of each expert that it is routed to, so in the mean over
tokens a block at width b adds

    E[g^2 (dW x)^2] = mass * s(b),    mass = sum g^2 / tokens,    s(b) = sum over weights of m_j (w - w_b)^2

with m_j = sum g^2 x_j^2 / sum g^2, the second moments of its inputs per unit of routed mass. So routing is in
`mass` alone; moments per *token* (sum g^2 x_j^2 / tokens) have it inside already, and would count it twice.
"""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.floors import Flags, hot_experts, raised
from ebbtide.engine.precision.hull import F64, U8

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]

PRIOR_TOKENS = 256.0


class RoutingMass:
    """Squared gate weights per token of every expert, of which a token's part halves in `half_life_tokens`.

    `prior` f64[layers, experts] is the mass before anything was routed (calibration's: per token, too). It
    counts like `prior_tokens` tokens that do not fade: at most a share of
    prior_tokens / (prior_tokens + 1.44 half_life_tokens) in the long run. Without one it is even: what all
    experts of a layer had in the mean. All calls belong to the thread that steps; what they return is a copy,
    which a planner's thread may have. Raises ValueError for what does not fit.
    """

    def __init__(
        self,
        layers: int,
        experts: int,
        half_life_tokens: float,
        *,
        prior: F64 | None = None,
        prior_tokens: float = PRIOR_TOKENS,
    ) -> None:
        if half_life_tokens <= 0 or prior_tokens <= 0:
            raise ValueError("half lives and pseudo-counts must be above 0 tokens")
        if prior is not None and prior.shape != (layers, experts):
            raise ValueError(f"the mass {prior.shape} is not of {layers} layers with {experts} experts")
        self._fade = 0.5 ** (1.0 / half_life_tokens)
        self._prior, self._prior_tokens = prior, prior_tokens
        self._sums, self._tokens = np.zeros((layers, experts)), np.zeros(layers)
        self._is_hot: Flags | None = None

    def note(self, layer: int, chosen: I32, gates: F32) -> None:
        """M tokens of a layer, in their order: chosen i32[M, k], gates f32[M, k] (as they weigh outputs)."""
        self._note(slice(layer, layer + 1), chosen[None], gates[None])

    def note_pass(self, chosen: I32, gates: F32) -> None:
        """All layers of a pass at once, which is cheaper: chosen i32, gates f32[layers, M, k]."""
        self._note(slice(None), chosen, gates)

    def _note(self, layers: slice, chosen: I32, gates: F32) -> None:
        sums = self._sums[layers]
        count, experts = sums.shape
        tokens = chosen.shape[1]
        ages = self._fade ** np.arange(tokens - 1, -1, -1.0)
        weights = np.square(gates, dtype=np.float64) * ages[:, None]
        slots = chosen + (np.arange(count) * experts)[:, None, None]
        added = np.bincount(slots.reshape(-1), weights.reshape(-1), minlength=sums.size)
        faded = self._fade**tokens
        self._sums[layers] = sums * faded + added.reshape(sums.shape)
        self._tokens[layers] = self._tokens[layers] * faded + ages.sum()

    def mass(self) -> F64:
        """f64[layers, experts]: squared gate weights per token, what was seen blended with the prior."""
        blended = self._sums + self._prior_tokens * self._prior_mass()
        return blended / (self._tokens + self._prior_tokens)[:, None]

    def _prior_mass(self) -> F64:
        if self._prior is not None:
            return self._prior
        experts = self._sums.shape[1]
        seen = self._sums.sum(axis=1) / np.maximum(self._tokens, 1e-9)
        mean = np.where(self._tokens > 0, seen, 1.0) / experts
        return np.repeat(mean[:, None], experts, axis=1)

    def floors(self, base: U8, hot_share: float, extra: int, most: U8 | None = None) -> U8:
        """Floors u8[layers, 2, experts]: `extra` planes above `base` for hot experts (see `hot_experts`).

        Never above `most` (8 where none is given), never below `base`. Experts that were hot at the last call
        stay so until others clearly take over.
        """
        self._is_hot = hot_experts(self.mass(), hot_share, were_hot=self._is_hot)
        return raised(base, self._is_hot, extra, most)


def blended(mass: F64, tokens: float, prior: F64) -> F64:
    """What `RoutingMass` says after so many tokens with that mass a token, but for their decay:
    f64[..., layers, experts].
    """
    return (mass * tokens + prior * PRIOR_TOKENS) / (tokens + PRIOR_TOKENS)


def block_weights(mass: F64, residual: F64 | None = None, unit: F64 | None = None) -> F64:
    """f64[layers * 2 * experts]: what the damage of a block per unit of routed mass counts in a plan.

    mass f64[layers, experts] times residual f64[layers] (the prompt's; 1 without) times unit f64[layers, 2]:
    what one unit of damage of a layer's gate_up and of its down costs the model (1 without, as if an error
    before the nonlinearity and one in the residual stream were the same). In the order of
    [layers, 2, experts].
    """
    layers = len(mass)
    unit = np.ones((layers, 2)) if unit is None else unit
    residual = np.ones(layers) if residual is None else residual
    return (mass[:, None] * (unit * residual[:, None])[:, :, None]).reshape(-1)
