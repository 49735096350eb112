// Functions of a vector of floats. The bits of a lane depend on that lane alone.
#pragma once

#include "simd.h"

namespace eb {
namespace EB_ISA {

// e^x, relative error below 2 units in the last place; 0 below -87.3, 2^127.x at most above 88.
static inline F32 exp(F32 x) {
  const F32 clamped = min(max(x, splat(-87.3f)), splat(88.0f));
  const F32 n = round_even(clamped * splat(1.44269504f));
  // ln 2 in two parts: n * kHigh is exact for |n| < 2^13.
  F32 r = fma(n, splat(-0.693359375f), clamped);
  r = fma(n, splat(2.12194440e-4f), r);
  F32 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + splat(1.0f);
  return p * exp2_whole(n);
}

// x / (1 + e^-x)
static inline F32 silu(F32 x) { return x / (splat(1.0f) + exp(splat(0.0f) - x)); }

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x / (1 + e^(-2u))
static inline F32 gelu(F32 x) {
  const F32 u = x * fma(x * x, splat(0.044715f * 0.79788456f), splat(0.79788456f));
  return x / (splat(1.0f) + exp(splat(-2.0f) * u));
}

}  // namespace EB_ISA
}  // namespace eb
