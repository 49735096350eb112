"""Sealing as the specification: two full BF16 pages become one FP8 page with scales; mixed pages are read."""

import ctypes

import numpy as np

from ebbtide.kernels.ops import F32, I32, U8, KvLayout, Pages
from ebbtide.kernels.reference.e4m3 import decode, encode
from ebbtide.kernels.reference.kv import bf16_floats, page_parts, require_bf16
from ebbtide.kernels.sealed import SEALED, Sidecar, scale_bytes


def seal(sources: I32, targets: I32, kv: KvLayout, pages: Pages, sidecar: Sidecar) -> None:
    """Write page targets[i] in FP8 from the BF16 pages sources[i, 0] and, behind it, sources[i, 1].

    sources [N, 2], targets [N]; `kv` is the BF16 layout. A target may not be a source.
    """
    require_bf16(kv)
    for pair, target in zip(sources, targets, strict=True):
        parts = [page_parts(kv, pages, int(page)) for page in pair]
        keys = np.concatenate([bf16_floats(k) for k, _ in parts], axis=2)
        values = np.concatenate([bf16_floats(v) for _, v in parts], axis=1)
        k_codes, v_codes, k_scales, v_scales = fp8_parts(kv, pages, sidecar, int(target))
        codes, k_scales[:] = encode(np.ascontiguousarray(keys.transpose(0, 2, 1)))
        k_codes[:] = codes.transpose(0, 2, 1)
        v_codes[:], v_scales[:] = encode(values)


def fp8_parts(kv: KvLayout, pages: Pages, sidecar: Sidecar, page_id: int) -> tuple[U8, U8, U8, U8]:
    """Writable views of an FP8 page: codes K [heads, head_dim, 2 T], V [heads, 2 T, head_dim], scales of K
    and of V [heads, 2 T]. `kv` is the BF16 layout.
    """
    slab, place = divmod(page_id, pages.pages_per_slab)
    tokens, half = 2 * kv.tokens, 2 * kv.heads * kv.head_dim * kv.tokens
    codes = _bytes(int(pages.slab_bases[slab]) + place * pages.page_bytes, 2 * half)
    scales = _bytes(int(sidecar.bases[slab]) + place * scale_bytes(kv), scale_bytes(kv))
    return (
        codes[:half].reshape(kv.heads, kv.head_dim, tokens),
        codes[half:].reshape(kv.heads, tokens, kv.head_dim),
        scales[: kv.heads * tokens].reshape(kv.heads, tokens),
        scales[kv.heads * tokens :].reshape(kv.heads, tokens),
    )


def _bytes(address: int, count: int) -> U8:
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


def gather_mixed(
    count: int, block_table: I32, kv: KvLayout, pages: Pages, sidecar: Sidecar
) -> tuple[F32, F32]:
    """K and V of positions 0 .. count - 1, each f32 [count, heads, head_dim], whatever page they are in."""
    keys = np.empty((count, kv.heads, kv.head_dim), np.float32)
    values = np.empty_like(keys)
    for start in range(0, count, kv.tokens):
        stop = min(start + kv.tokens, count)
        k, v = _run(start // kv.tokens, block_table, kv, pages, sidecar)
        keys[start:stop], values[start:stop] = k[: stop - start], v[: stop - start]
    return keys, values


def _run(run: int, block_table: I32, kv: KvLayout, pages: Pages, sidecar: Sidecar) -> tuple[F32, F32]:
    """K and V of one run of T positions, each [T, heads, head_dim]."""
    entry = int(block_table[run])
    if entry < SEALED:
        k_part, v_part = page_parts(kv, pages, entry)
        return bf16_floats(k_part).transpose(2, 0, 1), bf16_floats(v_part).transpose(1, 0, 2)
    k_codes, v_codes, k_scales, v_scales = fp8_parts(kv, pages, sidecar, entry - SEALED)
    here = slice(run % 2 * kv.tokens, (run % 2 + 1) * kv.tokens)
    keys = decode(k_codes[:, :, here].transpose(0, 2, 1), k_scales[:, here])
    return keys.transpose(1, 0, 2), decode(v_codes[:, here], v_scales[:, here]).transpose(1, 0, 2)
