"""KV pages for tests: several slabs, scattered page ids, NaN in every byte that no one wrote."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.ops import KvLayout, Pages

POISON = 0xFF  # two of them are a bf16 NaN
PADDING_BYTES = 192


class KvStore:
    """Slabs of pages larger than their data, and a block table for one sequence of `context` tokens."""

    def __init__(self, layout: KvLayout, context: int, *, slabs: int = 3, seed: int = 0) -> None:
        runs = -(-context // layout.tokens)
        data_bytes = 4 * layout.heads * layout.head_dim * layout.tokens
        self.layout = layout
        page_bytes = data_bytes + PADDING_BYTES
        per_slab = -(-runs // slabs) + 2
        self.memory = [np.full(per_slab * page_bytes, POISON, np.uint8) for _ in range(slabs)]
        bases = np.array([slab.ctypes.data for slab in self.memory], np.uint64)
        self.pages = Pages(bases, per_slab, page_bytes)
        shuffled = np.random.default_rng(seed).permutation(slabs * per_slab)
        self.table = shuffled[:runs].astype(np.int32)

    def bytes(self) -> NDArray[np.uint8]:
        """A copy of everything, padding and unused pages included."""
        return np.concatenate(self.memory)
