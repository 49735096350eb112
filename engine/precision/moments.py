"""Second moments of what goes into the experts' matrices: how much an error in each column of them matters.

With x the input of a block and g the gate weight of the token for its expert, an error dw of its weights
adds about g^2 (dw x)^2 to the squared error of the layer's output. So an input counts with its squared gate:

    moment_j = sum over tokens of g^2 x_j^2  /  sum over tokens of g^2

The moments are per unit of routed mass (the sum below), or routing would be counted twice: it is online.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.model.spec import ModelSpec

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


STEADY_MASS = 64.0
"""Sum of squared gates with which a layer's mean counts beside an expert's own moments, for damage.

KL of the arm paged at 5 bits of the starter on 2,048 held-out tokens, against damage of the moments as they
are: calibrated with 2,048 tokens, -11.7 % with 32, -11.1 % with 256, -7.1 % with the mean alone; with 64, on
other passages, -12.0 % (95 %: -15.7 to -9.3); calibrated with 51,200, -11.8 % (-12.8 to -10.9), but +2.1 %
(1.3 to 3.0) where units (units.py) were not measured. Of five or six passages each.
"""


@dataclass(frozen=True)
class Moments:
    """What calibration knows about a model's experts: L layers of E experts."""

    gate_up: F32
    """[L, E, d_model]: means of the squares of the normed rows, per unit of routed mass. An expert that no
    token chose has its layer's mean."""
    down: F32
    """[L, E, d_ff]: the same of the hidden rows behind the activation; ones where `has_down` is False."""
    mass: F64
    """[L, E]: sum of the squared gate weights, per token; 0 = no token chose it."""
    tokens: int
    has_down: bool = True

    @property
    def unused(self) -> int:
        """Experts that no token chose."""
        return int((self.mass == 0).sum())


class Sums:
    """Moments that are still being summed up. The sums are f32, to take half the memory; what is added is
    f64, so that a few thousand additions stay exact to about 1e-5.
    """

    def __init__(self, spec: ModelSpec, *, hidden: bool = True) -> None:
        """hidden: also of the rows behind the activation."""
        experts = spec.layers, spec.experts
        self.gate_up: F32 = np.zeros((*experts, spec.d_model), np.float32)
        self.down: F32 = np.zeros((*experts, spec.expert_d_ff if hidden else 0), np.float32)
        self.mass: F64 = np.zeros(experts, np.float64)
        self.tokens = 0
        self._d_ff = spec.expert_d_ff

    @property
    def has_down(self) -> bool:
        return self.down.size > 0

    def moments(self) -> Moments:
        """The moments so far."""
        if self.has_down:
            down = means(self.down, self.mass)
        else:
            down = np.ones((*self.mass.shape, self._d_ff), np.float32)
        mass = self.mass / max(self.tokens, 1)
        return Moments(means(self.gate_up, self.mass), down, mass, self.tokens, self.has_down)


def weighted_squares(x: F32, weights: F64) -> F64:
    """sum over m of weights[m] x[m, j]^2 of x[M, K], as f64[K]; in the order of the rows on every machine and
    with any number of threads, which a matrix product would not promise.
    """
    squares = np.square(x, dtype=np.float64)
    squares *= weights[:, None]
    return np.asarray(squares.sum(axis=0))


def merged(kept: Moments, added: Moments) -> Moments:
    """Both together, each expert weighted by the mass behind it. Raises ValueError for different models."""
    same = kept.gate_up.shape == added.gate_up.shape and kept.down.shape == added.down.shape
    if not same:
        raise ValueError("moments of different models")
    weights = kept.mass * kept.tokens, added.mass * added.tokens
    tokens = kept.tokens + added.tokens
    result = Moments(
        gate_up=_blended(kept.gate_up, added.gate_up, *weights),
        down=kept.down,
        mass=(weights[0] + weights[1]) / max(tokens, 1),
        tokens=tokens,
        has_down=kept.has_down or added.has_down,
    )
    if kept.has_down and added.has_down:
        return replace(result, down=_blended(kept.down, added.down, *weights))
    return replace(result, down=added.down) if added.has_down else result


def steadied(moments: Moments, added: float = STEADY_MASS) -> Moments:
    """Each expert's moments drawn towards its layer's mean, as if that had been seen with `added` mass.

    An expert that few tokens chose has moments of just these; its layer's mean is of all. What many tokens
    chose stays as it was. Mass and tokens are the same.

    Where nothing is known of the hidden rows, whose moments are ones, those of the inputs get a layer's mean
    of one too: else errors of one kind would seem to cost fifty times those of the other. KL of the arm paged
    at 5 bits of the starter, 1,500 held-out tokens: 0.0325 with the weights' errors alone; with moments of
    5,263 tokens as in chats 0.0401 as they are, 0.0190 like this (and 0.0197 with a layer's mean for both).
    """
    mass = moments.mass * moments.tokens
    if moments.has_down:
        drawn = _drawn(moments.gate_up, mass, added), _drawn(moments.down, mass, added)
        return replace(moments, gate_up=drawn[0], down=drawn[1])
    return replace(moments, gate_up=_levelled(_drawn(moments.gate_up, mass, added), mass))


def _levelled(own: F32, mass: F64) -> F32:
    """[L, E, K] with a mean of one in each layer, weighed by mass [L, E]."""
    result = np.empty_like(own)
    for layer in range(len(own)):
        mean = float(_layer_mean(own[layer], mass[layer]).mean())
        result[layer] = own[layer] / mean if mean > 0 else own[layer]
    return result


def _layer_mean(own: F32, mass: F64) -> F64:
    """[K] of [E, K], weighed by mass [E]; all experts alike where nothing was routed."""
    total = mass.sum()
    weights = mass / total if total > 0 else np.full(len(own), 1 / len(own))
    return np.asarray((own * weights[:, None]).sum(axis=0))


def _drawn(own: F32, mass: F64, added: float) -> F32:
    """[L, E, K] with so much mass [L, E] behind it, and `added` of the layer's mean."""
    result = np.empty_like(own)
    for layer in range(len(own)):
        mean = _layer_mean(own[layer], mass[layer])
        share = (mass[layer] / (mass[layer] + added))[:, None]
        result[layer] = share * own[layer] + (1 - share) * mean
    return result


def means(sums: F32, mass: F64) -> F32:
    """sums[L, E, K] per mass[L, E]; the layer's mean without any, ones in a layer that has none at all."""
    means = np.ones_like(sums)
    for layer in range(len(sums)):  # by itself: in f64 a whole model would take much memory
        total = mass[layer].sum()
        if total > 0:
            means[layer] = sums[layer].sum(axis=0, dtype=np.float64) / total
            used = mass[layer] > 0
            means[layer, used] = sums[layer, used] / mass[layer, used, None]
    return means


def _blended(kept: F32, added: F32, kept_mass: F64, added_mass: F64) -> F32:
    """The mean of two [L, E, K], weighted by [L, E]; `kept` where neither has any mass."""
    result = np.empty_like(kept)
    total = kept_mass + added_mass
    share = np.divide(added_mass, total, out=np.zeros_like(total), where=total > 0)
    for layer in range(len(kept)):
        part = share[layer, :, None]
        result[layer] = (1 - part) * kept[layer] + part * added[layer]
    return result
