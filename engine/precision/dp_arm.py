"""The arm `dp`: each layer takes one of two widths for a token, by the error that the lower one would make
(DP-LLM's idea: an estimate while the model runs, and thresholds that give the wanted average).

*What is estimated.* With g the gates of the experts that a token chose, and x what goes into them,

    error = |x|^2 sum over the chosen experts of g^2 (damage at the lower width - damage at the higher one)

which is a multiplication a layer once x and g are known: the norm of the input, and what calibration knows.

*When.* Widths are committed as whole vectors, between steps. But a token's own x and g are known only in the
middle of its step, where it is too late. So what decides is a linear guess of log(error), made before the
step and without computing anything of it ahead: from the token's embedding and from the errors of the token
before (DP-LLM, too, guesses from earlier activations to hide what the estimate costs). It is weaker than an
estimate from x itself; `EstimateFit.sentence` says how much of it the guess explains.

*Equal bytes.* The other arms *hold* the bytes of an average of `bits` planes. This one *reads* so many for a
token on average, and holds more: the higher width of every layer that ever takes it. In memory it is no equal
of theirs, and where memory is short that is what counts; its `average_bits` are planes read (measured over
each text that is scored; the thresholds give `bits` on the text that they were fitted to), and its
`expert_bytes` are the bytes held.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.forward import LayerObserver
from ebbtide.engine.model.layer import LayerPass
from ebbtide.engine.precision.arms import Pairs, threshold
from ebbtide.engine.precision.costs import F64, U8, Costs
from ebbtide.engine.precision.ridge import FARTHEST, RidgeHeads
from ebbtide.engine.precision.routing_mass import block_weights
from ebbtide.kernels.ops import BlockTable

F32 = NDArray[np.float32]

DIRECTIONS = 24
"""Random directions of the embedding that the guess goes by; chosen by hand."""
PENALTY = 50.0
"""See `RidgeHeads.fit`; chosen by hand."""
LEAST_ERROR = 1e-30


class Errors:
    """A `LayerObserver` that estimates, for every row of a pass, the error of each layer's lower width.

    gain f64[layers, experts]: see `gains`.
    """

    def __init__(self, gain: F64) -> None:
        self._gain = gain
        self.logs: F64 = np.zeros((0, len(gain)))
        """log(error) f64[rows, layers] of the last pass."""

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        rows = at.rows
        if layer == 0:
            self.logs = np.zeros((len(rows.normed), len(self._gain)))
        energy = np.square(rows.normed, dtype=np.float64).mean(axis=1)
        gates = np.square(rows.gates, dtype=np.float64)
        error = energy * (gates * self._gain[layer, rows.chosen]).sum(axis=1)
        self.logs[:, layer] = np.log(np.maximum(error, LEAST_ERROR))

    def computed(self, layer: int, at: LayerPass, gate_up: BlockTable, resident: U8) -> None:
        """See `LayerObserver.computed`."""


def gains(damage: F64, pairs: Pairs, costs: Costs, unit: F64 | None = None) -> F64:
    """f64[layers, experts]: how much less damage the higher width of a layer does, per unit of routed mass.

    damage f64[layers, 2, experts, WIDTHS], unit f64[layers, 2]: see units.py.
    """
    layers, _, experts = costs.shape
    weights = block_weights(np.ones((layers, experts)), unit=unit).reshape(costs.shape)
    never, always = (pairs.widths(costs, np.full(layers, at)).astype(np.int64) for at in (False, True))
    low, high = (np.take_along_axis(damage, q[..., None], axis=3)[..., 0] for q in (never, always))
    return np.asarray(((low - high) * weights).sum(axis=1))


def features(embeddings: F32, before: F64) -> F64:
    """f64[n, f]: what the guess for a token goes by, from its embedding f32[n, D] and the log errors of the
    token before f64[n, layers].
    """
    signs, rows = _signs(embeddings.shape[1]), embeddings.astype(np.float64)
    norm = np.sqrt(np.square(rows).sum(axis=1, keepdims=True)) + 1e-12
    # Not a matrix product: a row's sum must not depend on how many rows there are.
    seen = np.stack([(rows * signs[:, at]).sum(axis=1) for at in range(DIRECTIONS)], axis=1) / norm
    return np.concatenate([seen, np.log(norm), before], axis=1)


@cache
def _signs(d_model: int) -> F64:
    """The random directions f64[D, DIRECTIONS]: the same ones every time."""
    signs: F64 = np.random.default_rng(0).integers(0, 2, (d_model, DIRECTIONS)).astype(np.float64)
    return 2 * signs - 1


class EstimateFit(NamedTuple):
    """The guess and what it is held against: thresholds f64[layers], the usual log errors f64[layers]."""

    heads: RidgeHeads
    thresholds: F64
    usual: F64

    @classmethod
    def of(cls, seen: F64, errors: F64, share: F64) -> "EstimateFit":
        """From features f64[n, f] and log errors f64[n, layers] of n tokens, in the order of their text, and
        the share of tokens f64[layers] that are to get the higher width.
        """
        heads = RidgeHeads.fit(seen, errors, penalty=PENALTY)
        guesses = guess(heads, seen)
        limits = [threshold(guesses[:, layer], float(part)) for layer, part in enumerate(share)]
        return cls(heads, np.array(limits), errors.mean(axis=0))

    def sentence(self) -> str:
        """What the guess is worth, for a person."""
        return (
            f"--arm dp guesses each layer's error before a step; on tokens held out, that explains "
            f"{np.median(self.heads.r2):.0%} of what is estimated from the layer's own input (median)."
        )


def guess(heads: RidgeHeads, seen: F64) -> F64:
    """Log errors less the usual ones f64[n, layers], of features f64[n, f]; in an order of additions that
    does not depend on n. Not shrunk: only which of a layer's tokens have more matters.
    """
    z = np.clip((seen - heads.center) / heads.scale, -FARTHEST, FARTHEST)
    return np.stack([(row[:, None] * heads.weights).sum(axis=0) for row in z])


class DpArm:
    """See `against_full.Widths`: one token a step, with widths of its own.

    They depend on this token and those before it alone, so the same tokens get the same bits.
    """

    piece_tokens = 64
    step_tokens = 1

    def __init__(self, costs: Costs, pairs: Pairs, gain: F64, fit: EstimateFit) -> None:
        self._costs, self._pairs, self._fit = costs, pairs, fit
        self._errors = Errors(gain)
        self.observer: LayerObserver | None = self._errors
        self.begin()

    def begin(self) -> None:
        """A new text: nothing came before its first token."""
        self._errors.logs = self._fit.usual[None]
        self._steps, self._bits = 0, 0.0
        self.widths: U8 = self._pairs.held(self._costs)
        """u8[layers, 2, experts], for the next step."""

    def ahead(self, embeddings: F32) -> None:
        """The next step's one token has this embedding f32[1, D]: choose its widths."""
        guesses = guess(self._fit.heads, features(embeddings, self._errors.logs[-1:]))
        self.widths = self._pairs.widths(self._costs, guesses[0] > self._fit.thresholds)
        self._steps += 1
        self._bits += self._costs.average_bits(self.widths)

    def replan(self) -> None:
        """Nothing is chosen for a whole piece."""

    @property
    def read_bits(self) -> float:
        """Planes read per expert weight, on the average of this text's steps."""
        return self._bits / max(self._steps, 1)
