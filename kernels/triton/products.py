"""The product of one strip of a plane matrix with a few rows of arranged activations.

Per half line (16 columns) and row of the strip: y += scale * (factor * S - offset * X) + minimum * X, where
S is the sum of products of whole codes and activations, X the sum of the activations, and w = scale * (code
- offset) + minimum as in `kernels/reference/planes.py`. The running y of every half line of a tile are added
up at the end. The order of all sums depends on K alone; multiplications are fused where it says `fma` and
nowhere else.
"""

import triton
import triton.language as tl

from ebbtide.kernels.triton.planes import code, code_words, top_factor
from ebbtide.kernels.triton.scales import HALF_MIN, K6, load_scales, row_pair


@triton.jit
def half_line_sums(words, x, HALVES: tl.constexpr):
    """S of the even and of the odd row, [HALVES, 8]; x [HALVES, 1] points at column 0 of every half line."""
    first = tl.load(x)
    second = tl.load(x + HALVES)
    even = tl.fma(code(words[0], 1), second, code(words[0], 0) * first)
    odd = tl.fma(code(words[0], 3), second, code(words[0], 2) * first)
    for i in tl.static_range(1, 8):
        first = tl.load(x + (2 * i) * HALVES)
        second = tl.load(x + (2 * i + 1) * HALVES)
        even = tl.fma(code(words[i], 1), second, tl.fma(code(words[i], 0), first, even))
        odd = tl.fma(code(words[i], 3), second, tl.fma(code(words[i], 2), first, odd))
    return even, odd


@triton.jit
def add_scaled(y, sums, total, scale, minimum, factor, offset, KIND: tl.constexpr):
    """y + scale * (factor * S - offset * X) + minimum * X."""
    y = tl.fma(scale, tl.fma(sums, factor, -offset * total), y)
    if KIND == HALF_MIN or KIND == K6:
        y = tl.fma(minimum, total, y)
    return y


@triton.jit
def strip_products(
    pages,
    view,
    strip,
    x,
    x_step,
    halves,
    width,
    ROWS: tl.constexpr,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    HALVES: tl.constexpr,
):
    """Products of strip `strip` of a matrix with ROWS arranged rows that lie `x_step` values apart.

    Returns (even, odd), ROWS tensors f32 [8] each: rows 2 p and 2 p + 1 of the strip, p = row_pair(0 .. 7).
    """
    width = tl.minimum(width, view.plane_count)
    offset = view.zero - ((1 << (view.plane_count - width)) - 1) * 0.5
    factor = view.factor * top_factor(width, WIDTH)
    half = tl.arange(0, HALVES)[:, None]
    pair = row_pair(tl.arange(0, 8))[None, :]
    strip_meta = view.meta + strip * view.strip_meta
    even = ()
    odd = ()
    for _ in tl.static_range(ROWS):
        even += (tl.zeros([HALVES, 8], tl.float32),)
        odd += (tl.zeros([HALVES, 8], tl.float32),)
    for start in range(0, halves, HALVES):
        # Lanes past the end meet zeros in x, so they may read the last half line once more.
        here = tl.minimum(half, halves - 1 - start)
        at = (strip * halves + start) * 32
        words = code_words(pages, view.planes, at, here, width, view.masks, WIDTH, PAGE)
        scale = load_scales(pages, strip_meta, start, here, pair, KIND, PAGE)
        tile = x + start * 17 + half
        new_even = ()
        new_odd = ()
        for m in tl.static_range(ROWS):
            row = tile + m * x_step
            even_sums, odd_sums = half_line_sums(words, row, HALVES)
            total = tl.load(row + 16 * HALVES)
            new_even += (add_scaled(even[m], even_sums, total, scale[0], scale[1], factor, offset, KIND),)
            new_odd += (add_scaled(odd[m], odd_sums, total, scale[2], scale[3], factor, offset, KIND),)
        even = new_even
        odd = new_odd
    even_out = ()
    odd_out = ()
    for m in tl.static_range(ROWS):
        even_out += (tl.sum(even[m], axis=0),)
        odd_out += (tl.sum(odd[m], axis=0),)
    return even_out, odd_out
