"""How much each layer may keep: the split of the experts' pages among layers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]


class Quota(NamedTuple):
    """Of one layer."""

    slots: int
    """Experts that fit, whichever they are."""
    pages: int
    """What those of them fill that need most."""


def even_quotas(capacity_pages: int, sizes: I64) -> list[Quota]:
    """A quota for each layer, as even in experts as `capacity_pages` allows; what is left over goes to the
    first layers.

    `sizes` i64[layers, experts]: pages of each expert. A layer gets room for at least one expert (the floor)
    and at most for all; of n slots, room for its n largest. Raises ValueError below the floor.
    """
    falling = -np.sort(-sizes, axis=1)
    filled = falling.cumsum(axis=1)
    whole = filled.sum(axis=0)
    if capacity_pages < whole[0]:
        raise ValueError(f"{capacity_pages} pages are fewer than one expert per layer ({whole[0]})")
    slots = int(np.searchsorted(whole, capacity_pages, side="right"))
    quotas = [Quota(slots, int(pages)) for pages in filled[:, slots - 1]]
    left = capacity_pages - int(whole[slots - 1])
    for layer in range(len(quotas) if slots < sizes.shape[1] else 0):
        more = int(falling[layer, slots])
        if more <= left:
            quotas[layer] = Quota(slots + 1, quotas[layer].pages + more)
            left -= more
    return quotas
