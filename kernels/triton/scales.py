"""Scales and minimums of a tile of half lines, for the two rows that every word holds (kernels/layout.py).

Word w holds the rows 2 p and 2 p + 1 of a strip, p = `row_pair(w)`. All functions return
(scale, minimum) of the even row and (scale, minimum) of the odd one, f32 [HALVES, 8]; minimum is 0 where a
format has none.
"""

import triton
import triton.language as tl

from ebbtide.kernels.triton.windows import open_window, window_at

HALF = tl.constexpr(0)
HALF_MIN = tl.constexpr(1)
K6 = tl.constexpr(2)
K8 = tl.constexpr(3)


@triton.jit
def row_pair(word):
    """Which pair of rows word 0..7 of a half line holds: its upper two bits change places."""
    return (word & 1) | ((word & 2) << 1) | ((word & 4) >> 1)


@triton.jit
def two_halves(address, pair):
    """Two neighbouring f16 as f32: number `pair` [1, 8] of the records at `address` [HALVES, 1]."""
    record = tl.multiple_of(address.to(tl.pointer_type(tl.uint32)), [1, 16])
    both = tl.load(tl.max_contiguous(record + pair, [1, 2]))
    low = (both & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True)
    high = (both >> 16).to(tl.uint16).to(tl.float16, bitcast=True)
    return low.to(tl.float32), high.to(tl.float32)


@triton.jit
def load_word(window, at, PAGE: tl.constexpr):
    """The uint32 at byte `at` of a window, which is a multiple of 4."""
    return tl.load(tl.multiple_of(window_at(window, at, PAGE).to(tl.pointer_type(tl.uint32)), [1, 4]))


@triton.jit
def six_bits(window, at, pair, PAGE: tl.constexpr):
    """Sixteen six-bit values at byte `at` [HALVES, 1] of a window -> those of the even and of the odd row."""
    nibbles = tl.where(pair < 4, load_word(window, at, PAGE), load_word(window, at + 4, PAGE))
    low = nibbles >> ((pair & 3) * 8).to(tl.uint32)
    high = load_word(window, at + 8, PAGE) >> (pair * 4).to(tl.uint32)
    even = (low & 15) | ((high & 3) << 4)
    odd = ((low >> 4) & 15) | ((high & 12) << 2)
    return even.to(tl.float32), odd.to(tl.float32)


@triton.jit
def load_scales(pages, strip_at, start, half, pair, KIND: tl.constexpr, PAGE: tl.constexpr):
    """Scales of the half lines start + half [HALVES, 1] of the strip whose scales begin at `strip_at`.

    `start` is a multiple of 16 half lines, `pair` [1, 8] the row pair of every word.
    """
    if KIND == HALF:
        window = open_window(pages, strip_at + start * 16, PAGE)
        even, odd = two_halves(window_at(window, (half >> 1) * 32, PAGE), pair)
        return even, 0.0, odd, 0.0
    elif KIND == HALF_MIN:
        window = open_window(pages, strip_at + start * 32, PAGE)
        at = (half >> 1) * 64
        even, odd = two_halves(window_at(window, at, PAGE), pair)
        even_min, odd_min = two_halves(window_at(window, at + 32, PAGE), pair)
        return even, even_min, odd, odd_min
    elif KIND == K6:
        window = open_window(pages, strip_at + start * 16, PAGE)
        at = (half >> 4) * 256
        even, odd = two_halves(window_at(window, at, PAGE), pair)
        even_min, odd_min = two_halves(window_at(window, at + 32, PAGE), pair)
        group = at + 64 + ((half >> 1) & 7) * 24
        even_sub, odd_sub = six_bits(window, group, pair, PAGE)
        even_sub_min, odd_sub_min = six_bits(window, group + 12, pair, PAGE)
        return even * even_sub, -(even_min * even_sub_min), odd * odd_sub, -(odd_min * odd_sub_min)
    else:
        window = open_window(pages, strip_at + (start >> 4) * 288, PAGE)
        at = (half >> 4) * 288
        even, odd = two_halves(window_at(window, at, PAGE), pair)
        address = window_at(window, at + 32 + (half & 15) * 16, PAGE)
        record = tl.multiple_of(address.to(tl.pointer_type(tl.uint16)), [1, 16])
        both = tl.load(tl.max_contiguous(record + pair, [1, 2]))
        even_sub = (both & 0xFF).to(tl.int8, bitcast=False).to(tl.float32)
        odd_sub = (both >> 8).to(tl.int8, bitcast=False).to(tl.float32)
        return even * even_sub, 0.0, odd * odd_sub, 0.0
