"""KV pages as the specification: where a token's K and V lie in a page, and how a float becomes a bf16.

A page holds T tokens of one layer: the K part `[heads][head_dim][T]` (T innermost, so that eight keys are
one vector), then the V part `[heads][T][head_dim]`, both bf16 as u16. Position p lies at place p % T of the
page whose id is `block_table[p // T]`.
"""

import ctypes

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.ops import KernelError, KvLayout, Pages


def bf16_bits(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to the nearest bf16, ties to even; a NaN stays a NaN (made quiet, sign and top payload kept)."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(x), quiet, rounded).astype(np.uint16)


def bf16_floats(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The exact f32 value of each bf16."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def page_parts(kv: KvLayout, pages: Pages, page_id: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Writable views of one page: K u16[heads, head_dim, T] and V u16[heads, T, head_dim]."""
    require_bf16(kv)
    slab, place = divmod(page_id, pages.pages_per_slab)
    address = int(pages.slab_bases[slab]) + place * pages.page_bytes
    half = kv.heads * kv.head_dim * kv.tokens
    words = np.ctypeslib.as_array((ctypes.c_uint16 * (2 * half)).from_address(address))
    k_part = words[:half].reshape(kv.heads, kv.head_dim, kv.tokens)
    return k_part, words[half:].reshape(kv.heads, kv.tokens, kv.head_dim)


def require_bf16(kv: KvLayout) -> None:
    """Refuse a format that no kernel reads or writes yet."""
    if kv.format != "bf16":
        raise KernelError(f"KV pages in format {kv.format!r} are not supported yet; use bf16")


def kv_write(
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    positions: NDArray[np.int32],
    block_table: NDArray[np.int32],
    kv: KvLayout,
    pages: Pages,
) -> None:
    """Store k, v f32[M, heads, head_dim] at `positions` i32[M] of the sequence that `block_table` maps."""
    require_bf16(kv)
    for row, position in enumerate(positions):
        run, place = divmod(int(position), kv.tokens)
        k_part, v_part = page_parts(kv, pages, int(block_table[run]))
        k_part[:, :, place] = bf16_bits(k[row])
        v_part[:, place, :] = bf16_bits(v[row])


def gather_kv(
    count: int, block_table: NDArray[np.int32], kv: KvLayout, pages: Pages
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """K and V of positions 0 .. count - 1, each f32[count, heads, head_dim]."""
    keys = np.empty((count, kv.heads, kv.head_dim), np.float32)
    values = np.empty_like(keys)
    for start in range(0, count, kv.tokens):
        stop = min(start + kv.tokens, count)
        k_part, v_part = page_parts(kv, pages, int(block_table[start // kv.tokens]))
        keys[start:stop] = bf16_floats(k_part[:, :, : stop - start]).transpose(2, 0, 1)
        values[start:stop] = bf16_floats(v_part[:, : stop - start]).transpose(1, 0, 2)
    return keys, values
