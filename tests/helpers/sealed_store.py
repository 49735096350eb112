"""KV pages of both formats for tests: scattered, in several slabs, poison in every byte that no one wrote."""

import numpy as np

from ebbtide.kernels.ops import F32, I32, U8, KvLayout, Pages
from ebbtide.kernels.reference.kv import kv_write
from ebbtide.kernels.reference.seal import seal
from ebbtide.kernels.sealed import SEALED, Sidecar, scale_bytes

POISON = 0xFF
"""As bf16 a NaN, as a scale no number."""
ALIGNMENT = 64


def aligned(nbytes: int) -> U8:
    """Poisoned bytes that start at a multiple of 64."""
    memory = np.full(nbytes + ALIGNMENT, POISON, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


class SealedStore:
    """Slabs with a sidecar each. `table` maps one sequence of BF16 pages; `seal_pairs` changes it."""

    def __init__(self, layout: KvLayout, context: int, *, slabs: int = 3, seed: int = 0) -> None:
        runs = -(-context // layout.tokens)
        data = 4 * layout.heads * layout.head_dim * layout.tokens
        page_bytes = -(-data // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        per_slab = -(-(runs + runs // 2) // slabs) + 2
        self.layout = layout
        self.memory = [aligned(per_slab * page_bytes) for _ in range(slabs)]
        self.scales = [aligned(per_slab * scale_bytes(layout)) for _ in range(slabs)]
        self.pages = Pages(_addresses(self.memory), per_slab, page_bytes)
        self.sidecar = Sidecar(_addresses(self.scales))
        shuffled = np.random.default_rng(seed).permutation(slabs * per_slab).astype(np.int32)
        self.table, self.spare = shuffled[:runs], shuffled[runs:].tolist()

    def fill(self, k: F32, v: F32) -> None:
        """Write positions 0 .. len(k) - 1."""
        positions = np.arange(len(k), dtype=np.int32)
        kv_write(k, v, positions, self.table, self.layout, self.pages)

    def pairs(self, numbers: list[int]) -> tuple[I32, I32]:
        """BF16 pages of these pairs of runs, and a free page for each."""
        sources = np.array([self.table[2 * n : 2 * n + 2] for n in numbers], np.int32).reshape(-1, 2)
        return sources, np.array([self.spare.pop() for _ in numbers], np.int32)

    def seal_pairs(self, numbers: list[int]) -> None:
        """Turn these pairs of runs into FP8 pages; the BF16 pages become poison."""
        sources, targets = self.pairs(numbers)
        seal(sources, targets, self.layout, self.pages, self.sidecar)
        for number, pair, target in zip(numbers, sources, targets, strict=True):
            self.table[2 * number : 2 * number + 2] = SEALED + target
            for page in pair.tolist():
                slab, place = divmod(page, self.pages.pages_per_slab)
                start = place * self.pages.page_bytes
                self.memory[slab][start : start + self.pages.page_bytes] = POISON

    def bytes(self) -> U8:
        """A copy of everything, scales, padding and unused pages included."""
        return np.concatenate(self.memory + self.scales)


def _addresses(pieces: list[U8]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([piece.ctypes.data for piece in pieces], np.uint64)
