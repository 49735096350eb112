// e^x for softmax: exact zeros for masked entries, NaN kept, the same bits in every lane.
#pragma once

#include "simd.h"

namespace eb {
namespace EB_ISA {

// y, but 0 in lanes where x < limit.
#if defined(EB_AVX512)
static inline F32 zero_below(F32 x, F32 limit, F32 y) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), y.v)};
}
#elif defined(__AVX2__)
static inline F32 zero_below(F32 x, F32 limit, F32 y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.v, limit.v, _CMP_LT_OQ), y.v)};
}
#else
static inline F32 zero_below(F32 x, F32 limit, F32 y) {
  F32 r;
  for (int i = 0; i < F32::kLanes; ++i) r.v[i] = x.v[i] < limit.v[i] ? 0.0f : y.v[i];
  return r;
}
#endif

// e^x for x <= 0 (-inf gives 0, NaN stays NaN).
//
// n = round(x / ln 2), r = x - n ln 2 (ln 2 in two parts, n times the first is exact), e^r by a polynomial of degree 6
// fitted to |r| <= ln 2 / 2 (relative error 3e-9), times 2^n. Relative error at most 1.3 * 2^-23. Below -87, where
// the normal numbers end soon, the result is 0: an absolute error under 2e-38.
static inline F32 exp_nonpositive(F32 x) {
  const F32 lowest = splat(-87.0f);
  const F32 y = max(lowest, x);  // in this order a NaN passes
  const F32 n = round_even(y * splat(1.44269504f));
  F32 r = fma(n, splat(-0.693359375f), y);
  r = fma(n, splat(2.12194440e-4f), r);
  F32 q = splat(0.00138144696f);
  q = fma(q, r, splat(0.00836877991f));
  q = fma(q, r, splat(0.0416683927f));
  q = fma(q, r, splat(0.166665196f));
  q = fma(q, r, splat(0.49999994f));
  const F32 e = fma(r * r, q, r) + splat(1.0f);
  return zero_below(x, lowest, e * exp2_whole(max(n, splat(-126.0f))));
}

static inline float exp_nonpositive_scalar(float x) {
  float lanes[F32::kLanes];
  store(lanes, exp_nonpositive(splat(x)));
  return lanes[0];
}

}  // namespace EB_ISA
}  // namespace eb
