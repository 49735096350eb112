"""BF16 by shifts: sm_75 has no instructions for it, and everywhere else it takes no more of them."""

import triton
import triton.language as tl


@triton.jit
def bf16_bits(x):
    """uint16 of the nearest bf16, ties to even; a NaN stays a NaN (made quiet, sign and top payload kept)."""
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return tl.where((bits & 0x7FFFFFFF) > 0x7F800000, quiet, rounded).to(tl.uint16)


@triton.jit
def bf16_float(bits):
    """The exact f32 value of uint16 bits."""
    return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
