"""Sealing: two full BF16 pages become one FP8 page with its scales (`kernels/sealed.py`)."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.sealed import NOT_FINITE
from ebbtide.kernels.triton.bf16 import bf16_float
from ebbtide.kernels.triton.kv_tables import require_bf16

NOT_A_NUMBER = tl.constexpr(NOT_FINITE)
TOKENS_TOGETHER = 16
"""Tokens of one program: their codes of one dimension are one 16-byte vector of K."""


def seal(
    sources: torch.Tensor, targets: torch.Tensor, scales: torch.Tensor, kv: KvLayout, fault: torch.Tensor
) -> None:
    """Write FP8 pages from pairs of BF16 pages: all layers of a block, or of several, in one launch.

    sources i64 [N, 2]: addresses of BF16 pages, the second with the positions behind the first's. targets,
    scales i64 [N]: addresses of the FP8 page and of its scales, multiples of 16; a target is no source. `kv`
    is the BF16 layout. Where an address is 0 nothing is written, and 1 is added to `fault` i32 [1].
    """
    require_bf16(kv)
    count = len(sources)
    assert sources.shape == (count, 2) and targets.shape == scales.shape == (count,)
    assert sources.is_contiguous() and targets.is_contiguous() and scales.is_contiguous()
    if count:
        seal_kernel[(2 * kv.tokens // TOKENS_TOGETHER, 2 * kv.heads, count)](
            sources,
            targets,
            scales,
            fault,
            kv.heads,
            TOKENS=kv.tokens,
            HEAD_DIM=kv.head_dim,
            TILE=TOKENS_TOGETHER,
            num_warps=4,
            enable_fp_fusion=False,
        )


@triton.jit
def seal_kernel(
    sources,
    sealed,
    scales,
    fault,
    heads,
    TOKENS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program (t, h, n) codes tokens TILE t ... of page n: K of head h, or V of head h - heads."""
    page = tl.program_id(2)
    part = tl.program_id(1)
    token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    source = tl.load(sources + 2 * page + token // TOKENS)
    target = tl.load(sealed + page)
    beside = tl.load(scales + page)
    absent = tl.sum((source == 0).to(tl.int32), axis=0) > 0
    if absent | (target == 0) | (beside == 0):
        if (part == 0) & (tl.program_id(0) == 0):
            tl.atomic_add(fault, 1)
    else:
        column = tl.arange(0, triton.next_power_of_2(HEAD_DIM))
        at = part * (HEAD_DIM * TOKENS)
        if part < heads:
            byte = seal_keys(source, target, at, column, token, TOKENS, HEAD_DIM)
        else:
            byte = seal_values(source, target, at, column, token, TOKENS, HEAD_DIM)
        tl.store((beside + part * (2 * TOKENS) + token).to(tl.pointer_type(tl.uint8)), byte)


@triton.jit
def seal_keys(source, target, at, column, token, TOKENS: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Code one head's keys, which begin `at` values into a BF16 page; the bytes of their scales."""
    live = (column < HEAD_DIM)[:, None]
    place = at + column[:, None] * TOKENS + (token % TOKENS)[None, :]
    codes, byte = encode(load_bf16(source[None, :] + place * 2, live), 0)
    put(target + 2 * at + column[:, None] * (2 * TOKENS) + token[None, :], codes, live)
    return byte


@triton.jit
def seal_values(source, target, at, column, token, TOKENS: tl.constexpr, HEAD_DIM: tl.constexpr):
    """The same for values."""
    live = (column < HEAD_DIM)[None, :]
    place = at + (token % TOKENS)[:, None] * HEAD_DIM + column[None, :]
    codes, byte = encode(load_bf16(source[:, None] + place * 2, live), 1)
    put(target + 2 * at + token[:, None] * HEAD_DIM + column[None, :], codes, live)
    return byte


@triton.jit
def load_bf16(address, live):
    """f32 of the bf16 at byte addresses, 0 where not `live`."""
    return bf16_float(tl.load(address.to(tl.pointer_type(tl.uint16)), mask=live, other=0))


@triton.jit
def put(address, codes, live):
    """Store bytes."""
    tl.store(address.to(tl.pointer_type(tl.uint8)), codes, mask=live)


@triton.jit
def encode(x, AXIS: tl.constexpr):
    """Codes of vectors along AXIS of x, and the byte of each one's scale (`reference/e4m3.py`)."""
    bits = x.to(tl.uint32, bitcast=True)
    size = bits & 0x7FFFFFFF
    largest = tl.max(size.to(tl.int32), axis=AXIS)
    exponent = (largest >> 23) - 8 + ((largest & 0x7FFFFF) > 0x600000).to(tl.int32)
    byte = tl.where(largest >= 0x7F800000, NOT_A_NUMBER, tl.maximum(exponent, 1))
    factor = tl.maximum(254 - byte, 0) << 23
    scaled = x * tl.expand_dims(factor.to(tl.float32, bitcast=True), AXIS)
    size = scaled.to(tl.uint32, bitcast=True) & 0x7FFFFFFF
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - (120 << 3)
    # One unit of 2^14 in the last place is the smallest code.
    small = (size.to(tl.float32, bitcast=True) + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.where(size < 0x3C800000, small, normal) | ((bits >> 24) & 0x80)
    code = tl.where(tl.expand_dims(byte, AXIS) == NOT_A_NUMBER, 0, code)
    return code.to(tl.uint8), byte.to(tl.uint8)
