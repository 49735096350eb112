"""Prompt residuals: how much more or less than usual a prompt is hurt by low widths, layer by layer.

A head per layer maps cheap features of a prompt to the log of its residual (the damage that it does there,
over the damage that calibration expects) by ridge regression on standardised features z:

    log residual = mean + z . w,    w = (Z'Z + penalty I)^-1 Z' (log residuals - mean)

What counts is the deviation from the usual prompt, z . w; the mean is in the sensitivities already. It is
trusted as far as it held on rows that it was not fitted to (R^2 over folds), so a head that does not help
gives 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.hull import F64

LEAST, MOST = 0.5, 2.0
FARTHEST = 4.0
"""Standard deviations from the usual beyond which a feature counts no further: nothing was fitted there."""


class _Fit(NamedTuple):
    """Heads as they come out of one set of rows: f64[f], f64[f], f64[f, layers], f64[layers]."""

    center: F64
    scale: F64
    weights: F64
    mean: F64

    def deviation(self, features: F64) -> F64:
        """f64[..., layers]: log residuals less the usual ones. A feature that is not finite is usual."""
        z = (features - self.center) / self.scale
        return np.clip(np.where(np.isfinite(z), z, 0.0), -FARTHEST, FARTHEST) @ self.weights


@dataclass(frozen=True)
class RidgeHeads:
    """One head per layer: center, scale f64[f] of the features, weights f64[f, layers], r2 f64[layers].

    r2 is what the heads explained of rows that they were not fitted to, as a share of the variance; below 0
    where a constant would have been better.
    """

    center: F64
    scale: F64
    weights: F64
    r2: F64

    @classmethod
    def fit(cls, features: F64, log_residuals: F64, *, penalty: float = 10.0, folds: int = 5) -> Self:
        """Heads for features f64[n, f] and log residuals f64[n, layers] of n prompts, in their order.

        `penalty` weighs like so many rows that say 0. Folds are runs of neighbouring rows, which often come
        from the same text. With fewer than 2 rows a fold, r2 is 0. Raises ValueError for what is not finite
        or does not fit together.
        """
        _check(features, log_residuals, penalty, folds)
        whole = _solve(features, log_residuals, penalty)
        r2 = _held_out_r2(features, log_residuals, penalty, folds)
        return cls(whole.center, whole.scale, whole.weights, r2)

    def predict(self, features: F64) -> F64:
        """Residuals f64[..., layers], each within 1/2 .. 2, for features f64[..., f]; 1 where a head is off.

        exp(max(r2, 0) * deviation): shrunk towards 1 first, then clipped.
        """
        if features.shape[-1:] != self.center.shape:
            raise ValueError(f"heads for {len(self.center)} features cannot use {features.shape}")
        deviation = _Fit(self.center, self.scale, self.weights, self.r2).deviation(features)
        return np.clip(np.exp(np.maximum(self.r2, 0.0) * deviation), LEAST, MOST)

    @property
    def helping(self) -> int:
        """How many layers have a head that helps."""
        return int((self.r2 > 0).sum())

    def sentence(self) -> str:
        """What these heads are worth, for a person."""
        layers = len(self.r2)
        if not self.helping:
            return "Prompt residuals are off: on text held out they predicted no better than a constant."
        share = np.median(self.r2[self.r2 > 0])
        return (
            f"Prompt residuals help in {self.helping} of {layers} layers, where they explain "
            f"{share:.0%} of the variance of text held out (median)."
        )

    def to_arrays(self) -> dict[str, F64]:
        """All of it as plain arrays, for a file."""
        return {"center": self.center, "scale": self.scale, "weights": self.weights, "r2": self.r2}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Back from `to_arrays`. Raises ValueError where an array is missing, misshapen or not finite."""
        missing = {"center", "scale", "weights", "r2"} - set(arrays)
        if missing:
            raise ValueError(f"residual heads without {', '.join(sorted(missing))}")
        parts = (np.asarray(arrays[name], np.float64) for name in ("center", "scale", "weights", "r2"))
        heads = cls(*parts)
        shapes = heads.center.shape, heads.scale.shape, heads.weights.shape
        fits = shapes == ((len(heads.center),), (len(heads.center),), heads.center.shape + heads.r2.shape)
        finite = all(np.isfinite(part).all() for part in heads.to_arrays().values())
        if not (fits and finite and (heads.scale > 0).all()):
            raise ValueError(f"residual heads that do not fit together: {shapes}, {heads.r2.shape}")
        return heads


def _solve(features: F64, targets: F64, penalty: float) -> _Fit:
    center, scale = features.mean(axis=0), features.std(axis=0)
    # A feature that never changes (but for rounding) says nothing: its z is 0.
    scale = np.where(scale > 1e-9 * np.maximum(np.abs(center), 1e-300), scale, np.inf)
    z = (features - center) / scale
    mean = targets.mean(axis=0)
    weights = np.linalg.solve(z.T @ z + penalty * np.eye(z.shape[1]), z.T @ (targets - mean))
    return _Fit(center, np.where(np.isfinite(scale), scale, 1.0), weights, mean)


def _held_out_r2(features: F64, targets: F64, penalty: float, folds: int) -> F64:
    """1 - squared error / squared deviation from the mean, both on rows and against means of the others."""
    rows, layers = targets.shape
    if rows < 2 * folds:
        return np.zeros(layers)
    error, spread = np.zeros(layers), np.zeros(layers)
    for held in np.array_split(np.arange(rows), folds):
        rest = np.delete(np.arange(rows), held)
        fit = _solve(features[rest], targets[rest], penalty)
        away = targets[held] - fit.mean
        spread += np.square(away).sum(axis=0)
        error += np.square(away - fit.deviation(features[held])).sum(axis=0)
    return np.divide(spread - error, spread, out=np.zeros(layers), where=spread > 0)


def _check(features: F64, targets: F64, penalty: float, folds: int) -> None:
    if features.ndim != 2 or targets.ndim != 2 or len(features) != len(targets) or not len(features):
        raise ValueError(f"features {features.shape} and residuals {targets.shape} must have the same rows")
    if not (np.isfinite(features).all() and np.isfinite(targets).all()):
        raise ValueError("features and log residuals must be finite")
    if penalty <= 0 or folds < 2:
        raise ValueError("a penalty must be above 0, and folds at least 2")
