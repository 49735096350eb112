"""From the words of planes to codes: an 8x8 bit transpose in registers.

Word w of a half line has, in plane p, one bit of 32 codes. Transposed, word i holds four whole codes as
bytes: columns 2i and 2i + 1 of row ROW_OF_PAIR[2w % 16], then of row ROW_OF_PAIR[(2w + 1) % 16]. Plane 0
becomes bit 7, so that codes of any width have their top bit in the same place and missing planes are zeros;
up to a width of 4, where half of the work is enough, it becomes bit 3 (`top_factor`).

A byte needs no conversion to become a float: the f32 whose bits are an integer v < 2^24 *is* v * 2^-149.

WIDTH says at compile time what is known of the width: the width itself (1 to 8), LOW (1 to 4), HIGH (5 to
8), or MIXED. A product has the same bits whichever is said.
"""

import triton
import triton.language as tl

from ebbtide.kernels.triton.windows import open_window, window_at

LOW = tl.constexpr(-1)
HIGH = tl.constexpr(-2)
MIXED = tl.constexpr(-3)


def known_width(promise: int, planes: int) -> int:
    """WIDTH for a matrix of `planes` planes in a block about whose width `promise` is known: a block may hold
    matrices of different formats, and none has more planes than its own.
    """
    if promise > 0:
        return min(promise, planes)
    if promise == HIGH.value:
        return planes if planes <= 4 else promise
    return LOW.value if planes <= 4 else promise


@triton.jit
def load_plane(pages, offset, half, present, PAGE: tl.constexpr):
    """uint32 words [HALVES, 8] of the half lines `half` [HALVES, 1] of a plane that starts at `offset`.

    Zeros where the plane is not `present`; None means that it is, for certain.
    """
    window = open_window(pages, offset, PAGE)
    line = tl.multiple_of(window_at(window, half * 32, PAGE).to(tl.pointer_type(tl.uint32)), [1, 16])
    words = line + tl.arange(0, 8)[None, :]
    if present is None:
        return tl.load(words)
    else:
        return tl.load(words, mask=half < tl.where(present, half.shape[0], 0), other=0)


@triton.jit
def plane(pages, offsets, at, half, width, NUMBER: tl.constexpr, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """Words of plane NUMBER, zeros if the width does not reach it."""
    if NUMBER == 0 or NUMBER < WIDTH or (WIDTH == HIGH and NUMBER < 5):
        return load_plane(pages, offsets[NUMBER] + at, half, None, PAGE)
    elif WIDTH > 0:
        return tl.zeros([half.shape[0], 8], tl.uint32)
    else:
        return load_plane(pages, offsets[NUMBER] + at, half, width > NUMBER, PAGE)


@triton.jit
def swap(a, b, mask, SHIFT: tl.constexpr):
    """Exchange the bits of `a` outside `mask` with those of `b` inside it, SHIFT places below."""
    return (a & mask) | ((b << SHIFT) & ~mask), ((a >> SHIFT) & mask) | (b & ~mask)


@triton.jit
def transpose4(a, b, c, d, masks):
    """Bits 0 to 3 of each nibble become words: two of the three stages of an 8x8 transpose."""
    a, b = swap(a, b, masks[0], 1)
    c, d = swap(c, d, masks[0], 1)
    a, c = swap(a, c, masks[1], 2)
    b, d = swap(b, d, masks[1], 2)
    return a, b, c, d


@triton.jit
def low_words(pages, offsets, at, half, width, masks, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """The eight words of codes of at most 4 planes, plane 0 in bit 3; `at` is added to every offset."""
    d = plane(pages, offsets, at, half, width, 0, WIDTH, PAGE)
    c = plane(pages, offsets, at, half, width, 1, WIDTH, PAGE)
    b = plane(pages, offsets, at, half, width, 2, WIDTH, PAGE)
    a = plane(pages, offsets, at, half, width, 3, WIDTH, PAGE)
    a, b, c, d = transpose4(a, b, c, d, masks)
    low = masks[2]
    return a & low, b & low, c & low, d & low, (a >> 4) & low, (b >> 4) & low, (c >> 4) & low, (d >> 4) & low


@triton.jit
def high_words(pages, offsets, at, half, width, masks, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """The eight words of codes of 5 to 8 planes, plane 0 in bit 7."""
    h = plane(pages, offsets, at, half, width, 0, WIDTH, PAGE)
    g = plane(pages, offsets, at, half, width, 1, WIDTH, PAGE)
    f = plane(pages, offsets, at, half, width, 2, WIDTH, PAGE)
    e = plane(pages, offsets, at, half, width, 3, WIDTH, PAGE)
    d = plane(pages, offsets, at, half, width, 4, WIDTH, PAGE)
    c = plane(pages, offsets, at, half, width, 5, WIDTH, PAGE)
    b = plane(pages, offsets, at, half, width, 6, WIDTH, PAGE)
    a = plane(pages, offsets, at, half, width, 7, WIDTH, PAGE)
    a, b, c, d = transpose4(a, b, c, d, masks)
    e, f, g, h = transpose4(e, f, g, h, masks)
    a, e = swap(a, e, masks[2], 4)
    b, f = swap(b, f, masks[2], 4)
    c, g = swap(c, g, masks[2], 4)
    d, h = swap(d, h, masks[2], 4)
    return a, b, c, d, e, f, g, h


@triton.jit
def code_words(pages, offsets, at, half, width, masks, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """The eight words of the half lines `half` [HALVES, 1], each uint32 [HALVES, 8]."""
    if WIDTH == LOW or (WIDTH > 0 and WIDTH <= 4):
        return low_words(pages, offsets, at, half, width, masks, WIDTH, PAGE)
    elif WIDTH == HIGH or WIDTH > 4:
        return high_words(pages, offsets, at, half, width, masks, WIDTH, PAGE)
    else:
        if width <= 4:
            a, b, c, d, e, f, g, h = low_words(pages, offsets, at, half, width, masks, LOW, PAGE)
        else:
            a, b, c, d, e, f, g, h = high_words(pages, offsets, at, half, width, masks, HIGH, PAGE)
        return a, b, c, d, e, f, g, h


@triton.jit
def top_factor(width, WIDTH: tl.constexpr):
    """What makes up for the place of plane 0: 16 where it is bit 3."""
    if WIDTH == LOW or (WIDTH > 0 and WIDTH <= 4):
        return 16.0
    elif WIDTH == HIGH or WIDTH > 4:
        return 1.0
    else:
        return tl.where(width <= 4, 16.0, 1.0)


@triton.jit
def code(word, BYTE: tl.constexpr):
    """Byte BYTE of each word, as the f32 code * 2^-149."""
    return ((word >> (8 * BYTE)) & 0xFF).to(tl.float32, bitcast=True)
