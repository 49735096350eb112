"""The arm `dp`: for every token, gate_up and down of each layer take one of two widths, by the error that the
lower one would make (DP-LLM's idea: an estimate while the model runs, and thresholds that give the average).

*What is estimated.* With g the gates of the experts that a token chose, and x what goes into them,

    error = |x|^2 sum over the chosen experts of g^2 (damage at the lower width - damage at the higher one)

which costs next to nothing once x and g are known: the norm of the input, and what calibration knows.

*When.* Widths are committed as whole vectors, between steps. But a token's own x and g are known only in the
middle of its step, where it is too late. So what decides is a linear guess of log(error), made before the
step and without computing anything of it ahead: from the token's embedding and from the errors of the token
before (DP-LLM, too, guesses from earlier activations to hide what the estimate costs). It is weaker than an
estimate from x itself; `EstimateFit.sentence` says how much of it the guess explains.

*Equal bytes.* The other arms *hold* the bytes of an average of `bits` planes. This one *reads* so many for a
token on average, and holds more: each higher width that is ever taken. In memory it is no equal of theirs,
and where memory is short that is what counts. Its `average_bits` are planes read (measured over each text
that is scored; the thresholds give `bits` on the text that they were fitted to), its `expert_bytes` are the
bytes held. What is read for a token is of the experts that it chose, which here have all the same widths as
the others of their layer; the other arms may read more than they hold on average, for they give more planes
to experts that are asked for often.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.forward import LayerObserver
from ebbtide.engine.model.layer import LayerPass
from ebbtide.engine.precision.arms import DP_STEPS, Pairs, threshold
from ebbtide.engine.precision.costs import F64, U8, Costs
from ebbtide.engine.precision.ridge import FARTHEST, RidgeHeads
from ebbtide.engine.precision.routing_mass import block_weights
from ebbtide.kernels.ops import BlockTable

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

DIRECTIONS = 24
"""Random directions of the embedding that the guess goes by; chosen by hand."""
PENALTY = 50.0
"""See `RidgeHeads.fit`; chosen by hand."""
LEAST_ERROR = 1e-30


class Seen(NamedTuple):
    """What the errors of n tokens follow from, whatever the widths: mean squares of the experts' inputs
    f64[n, layers], experts i32[n, layers, k] and the squares of their gates f64[n, layers, k].
    """

    energy: F64
    chosen: I32
    squares: F64

    def log_errors(self, gain: F64) -> F64:
        """f64[n, layers * 2] for a `gain` f64[layers, 2, experts]: see `gains`."""
        layers = np.arange(self.energy.shape[1])
        spared = gain.transpose(0, 2, 1)[layers[:, None], self.chosen]
        errors = self.energy[..., None] * (self.squares[..., None] * spared).sum(axis=2)
        return np.asarray(np.log(np.maximum(errors, LEAST_ERROR)).reshape(len(errors), -1))


class Watcher:
    """A `LayerObserver` that keeps what `Seen` has of the last pass."""

    def __init__(self, layers: int) -> None:
        self._layers: list[tuple[F64, I32, F64]] = []
        self._count = layers

    def forget(self) -> None:
        """There was no last pass."""
        self._layers = []

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        rows = at.rows
        if layer == 0:
            self._layers = []
        energy = np.square(rows.normed, dtype=np.float64).mean(axis=1)
        self._layers.append((energy, rows.chosen.copy(), np.square(rows.gates, dtype=np.float64)))

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`."""

    @property
    def seen(self) -> Seen | None:
        """None without a pass."""
        if len(self._layers) < self._count:
            return None
        energy, chosen, squares = (np.stack(parts, axis=1) for parts in zip(*self._layers, strict=True))
        return Seen(energy, chosen, squares)


def gains(damage: F64, pairs: Pairs, costs: Costs, unit: F64 | None = None) -> F64:
    """f64[layers, 2, experts]: how much less damage the higher widths do, per unit of routed mass.

    damage f64[layers, 2, experts, WIDTHS], unit f64[layers, 2]: see units.py.
    """
    layers, _, experts = costs.shape
    weights = block_weights(np.ones((layers, experts)), unit=unit).reshape(costs.shape)
    at = (pairs.widths(costs, np.full((layers, 2), up)).astype(np.int64) for up in (False, True))
    low, high = (np.take_along_axis(damage, widths[..., None], axis=3)[..., 0] for widths in at)
    return np.asarray((low - high) * weights)


def features(embeddings: F32, before: F64) -> F64:
    """f64[n, f]: what the guess for a token goes by, from its embedding f32[n, D] and the log errors of the
    token before f64[n, layers * 2].
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
    """The guess and what it is held against: thresholds f64[layers, 2], usual log errors f64[layers * 2]."""

    heads: RidgeHeads
    thresholds: F64
    usual: F64

    @classmethod
    def of(cls, before: F64, errors: F64, share: F64) -> "EstimateFit":
        """From features f64[n, f] and log errors f64[n, layers * 2] of n tokens, in the order of their text,
        and the share of tokens f64[layers, 2] that are to get the higher width.
        """
        heads = RidgeHeads.fit(before, errors, penalty=PENALTY)
        guesses = guess(heads, before)
        limits = [threshold(guesses[:, at], float(part)) for at, part in enumerate(share.ravel())]
        return cls(heads, np.reshape(limits, share.shape), errors.mean(axis=0))

    def sentence(self) -> str:
        """What the guess is worth, for a person."""
        return (
            "--arm dp guesses each layer's error before a step; on tokens held out, that explains "
            f"{np.median(self.heads.r2):.0%} of what is estimated from the layer's own input (median)."
        )


def remaining(before: F64, errors: F64, layers: int) -> F64:
    """f64[layers, 2, DP_STEPS + 1] for `dp_pairs`: how well a guess finds the tokens with large errors, on
    the second half of n tokens when it is fitted to the first. Arguments as of `EstimateFit.of`.
    """
    half = len(errors) // 2
    heads = RidgeHeads.fit(before[:half], errors[:half], penalty=PENALTY)
    order = np.argsort(-guess(heads, before[half:]), axis=0, kind="stable")
    found = np.take_along_axis(np.exp(errors[half:]), order, axis=0).cumsum(axis=0)
    taken = np.linspace(0, len(found), DP_STEPS + 1).round().astype(np.int64)
    shares = np.concatenate([np.zeros((1, found.shape[1])), found / found[-1]])[taken]
    return np.asarray((1 - shares).T.reshape(layers, 2, -1))


def guess(heads: RidgeHeads, before: F64) -> F64:
    """Log errors less the usual ones f64[n, layers * 2], of features f64[n, f]; in an order of additions that
    does not depend on n. Not shrunk: only which tokens have more matters.
    """
    z = np.clip((before - heads.center) / heads.scale, -FARTHEST, FARTHEST)
    return np.stack([(row[:, None] * heads.weights).sum(axis=0) for row in z])


class DpArm:
    """See `against_full.Widths`: one token a step, with widths of its own.

    They depend on this token and those before it alone, so the same tokens get the same bits.
    """

    piece_tokens = 64
    step_tokens = 1

    def __init__(self, costs: Costs, pairs: Pairs, gain: F64, fit: EstimateFit) -> None:
        self._costs, self._pairs, self._gain, self._fit = costs, pairs, gain, fit
        self._watcher = Watcher(costs.shape[0])
        self.observer: LayerObserver | None = self._watcher
        self.begin()

    def begin(self) -> None:
        """A new text: nothing came before its first token."""
        self._watcher.forget()
        self._steps, self._bits = 0, 0.0
        self.widths: U8 = self._pairs.held(self._costs)
        """u8[layers, 2, experts], for the next step."""

    def ahead(self, embeddings: F32) -> None:
        """The next step's one token has this embedding f32[1, D]: choose its widths."""
        last = self._watcher.seen
        before = self._fit.usual[None] if last is None else last.log_errors(self._gain)
        (guessed,) = guess(self._fit.heads, features(embeddings, before))
        limits = self._fit.thresholds
        self.widths = self._pairs.widths(self._costs, guessed.reshape(limits.shape) > limits)
        self._steps += 1
        self._bits += self._costs.average_bits(self.widths)

    def replan(self) -> None:
        """Nothing is chosen for a whole piece."""

    @property
    def read_bits(self) -> float:
        """Planes read per expert weight, on the average of this text's steps."""
        return self._bits / max(self._steps, 1)
