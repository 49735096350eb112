"""KV pages in FP8: what a block table says about them, and where their scales are.

A block table has an entry for every run of T positions. A page id alone is a BF16 page of that run; a page id
with `SEALED` added is an FP8 page of 2 T positions, named by the entries of both of its runs (an even one and
the next); a negative entry is absent.

A page of FP8 holds codes only. Their scales, a byte for each token and head, lie in a *sidecar*: beside every
slab a piece of memory with a record of `scale_bytes` for each of its pages, `K u8 [heads][2 T]`, then
`V u8 [heads][2 T]`. Byte b > 0 stands for 2^(b - 127); `NOT_FINITE` marks a vector that had no numbers in it.
"""

from dataclasses import dataclass

from ebbtide.kernels.ops import U64, KvLayout

SEALED = 1 << 30
"""Added to the id of an FP8 page in a block table."""
NOT_FINITE = 255


@dataclass(frozen=True, eq=False)
class Sidecar:
    """Scales of page p: `scale_bytes(kv)` from `bases[p // pages_per_slab] + (p % pages_per_slab) *
    scale_bytes(kv)` on; every base is a multiple of 16."""

    bases: U64


def scale_bytes(kv: KvLayout) -> int:
    """Bytes of one FP8 page's scales; `kv` is the BF16 layout."""
    return 4 * kv.heads * kv.tokens


def sealed_layout(kv: KvLayout) -> KvLayout:
    """The FP8 layout that fills the same page as `kv`, which is BF16."""
    return KvLayout(kv.heads, kv.head_dim, 2 * kv.tokens, "fp8")
