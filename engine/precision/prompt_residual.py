"""Prompt residuals from what a conversation routes to: no feature costs anything, for routes are kept anyway.

Features of a prompt are where its routing lies along the main directions in which prompts differ. With m the
mass f64[layers, experts] (a decayed sum, blended with calibration's, see routing_mass.py) and r = sqrt(m),

    feature_i = direction_i . (r - usual r)

where the directions are the first right singular vectors of r over the prompts of the calibration's text. At
the beginning of a chat the mass is calibration's, the features are 0, and no layer has a residual.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.ridge import RidgeHeads

DIRECTIONS = 8
"""At most so many, and no more than one for each of `PROMPTS_EACH` prompts."""
PROMPTS_EACH = 8


@dataclass(frozen=True)
class PromptResiduals:
    """usual f64[layers * experts], directions f64[n, layers * experts], and heads for n features."""

    usual: F64
    directions: F64
    heads: RidgeHeads

    @classmethod
    def fit(cls, masses: F64, residuals: F64) -> Self | None:
        """From the mass f64[n, layers, experts] of n prompts, in the order of their text, and what each layer
        erred there over what was expected of it f64[n, layers]. None where there are too few prompts.

        What all layers of a prompt have in common is left out: it moves no planes. The directions are made
        from all prompts, also those that the heads' R^2 is held out on; the residuals are not.
        """
        count = min(DIRECTIONS, len(masses) // PROMPTS_EACH)
        if count == 0:
            return None
        rows = np.sqrt(masses).reshape(len(masses), -1)
        usual = rows.mean(axis=0)
        away = rows - usual
        _, _, directions = np.linalg.svd(away, full_matrices=False)
        logs = np.log(np.maximum(residuals, 1e-12))
        logs -= logs.mean(axis=1, keepdims=True)
        features = _along(directions[:count], away)
        return cls(usual, directions[:count], RidgeHeads.fit(features, logs))

    def of(self, mass: F64) -> F64:
        """f64[layers]: see `RidgeHeads.predict`, for mass f64[layers, experts]."""
        away = np.sqrt(mass).reshape(-1) - self.usual
        return self.heads.predict(_along(self.directions, away[None])[0])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For a file."""
        return {"usual": self.usual, "directions": self.directions, **self.heads.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], layers: int, experts: int) -> Self:
        """Back from `to_arrays`. Raises ValueError for what is missing, not finite or of another model."""
        missing = {"usual", "directions"} - set(arrays)
        if missing:
            raise ValueError(f"prompt residuals without {', '.join(sorted(missing))}")
        usual, directions = (np.asarray(arrays[name], np.float64) for name in ("usual", "directions"))
        heads = RidgeHeads.from_arrays(arrays)
        shapes = usual.shape, directions.shape, heads.r2.shape
        wanted = (layers * experts,), (len(heads.center), layers * experts), (layers,)
        if shapes != wanted or not (np.isfinite(usual).all() and np.isfinite(directions).all()):
            raise ValueError(f"prompt residuals of another model: {shapes}, not {wanted}")
        return cls(usual, directions, heads)


def _along(directions: F64, away: F64) -> F64:
    """f64[n, directions] of rows f64[n, layers * experts]; row by row, so that a row's sums are always the
    same, however many rows there are.
    """
    return np.stack([(directions * row).sum(axis=1) for row in away])
