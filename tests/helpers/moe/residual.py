"""How large each part of the hidden state is made, layer by layer; all other scales follow from it.

The first half of the residual's elements carries the token: a direction common to all (every element COMMON)
and the token's own part. Attention writes a mean over recent tokens into the second half. Experts add a
little to both. The sizes are those of a text of independent tokens; a real one repeats its words, and its
context is up to half larger.
"""

from dataclasses import dataclass

import numpy as np

from tests.helpers.moe.shapes import MoeShape

COMMON = 1.0
OWN = 0.75
"""Standard deviation of a running text's token parts; common tokens have less than rare ones."""
FIRST_CONTEXT = 0.25
"""Variance that the first layer's attention writes; all layers together write 1."""
EXPERTS = 0.15
"""Variance that all layers' experts add together."""
SCORES = 1.3
"""Standard deviation of a router's scores over its experts."""


@dataclass(frozen=True)
class Residual:
    """Sizes in the hidden state of one shape. Variances are per element."""

    shape: MoeShape

    @property
    def half(self) -> int:
        """Elements that carry the token; as many carry the context."""
        return self.shape.sizes.d_model // 2

    def context(self, layer: int) -> float:
        """Variance of the context's half behind the attention of `layer`; 0 before the first (-1)."""
        rest = (1 - FIRST_CONTEXT) / max(self.shape.sizes.layers - 1, 1)
        return FIRST_CONTEXT + rest * layer if layer >= 0 else 0.0

    def written(self, layer: int) -> float:
        """Variance that the attention of `layer` adds to the context."""
        return self.context(layer) - self.context(layer - 1)

    @property
    def expert(self) -> float:
        """Variance that one layer's experts add."""
        return EXPERTS / self.shape.sizes.layers

    def rms(self, context_of: int, experts_of: int) -> float:
        """What RMSNorm divides by, behind the attention and the experts of these layers."""
        token = COMMON**2 + OWN**2
        return float(np.sqrt((token + self.context(context_of)) / 2 + self.expert * (experts_of + 1)))
