// Vectors of f32 for the attention, norm and router kernels: one interface, one set of bits per instruction set.
//
// Included by one translation unit per instruction set; everything is in an anonymous namespace, so that code
// compiled for one instruction set is never linked into another. `Wide` is the widest vector, `Vec8` has eight lanes.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace eb {
namespace {

// Adding it to |x| < 2^22 leaves x rounded to the nearest integer (ties to even) in the low bits of the sum.
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23
constexpr uint32_t kRoundMagicBits = 0x4b400000u;

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

#if defined(__AVX2__)

struct Vec8 {
  static constexpr int kWidth = 8;
  __m256 v;

  static Vec8 splat(float x) { return {_mm256_set1_ps(x)}; }
  static Vec8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  // Eight bf16: a bf16 is the upper half of an f32.
  static Vec8 load(const uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
};

inline Vec8 operator+(Vec8 a, Vec8 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec8 operator-(Vec8 a, Vec8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec8 operator*(Vec8 a, Vec8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
// a * b + c, rounded once.
inline Vec8 fma(Vec8 a, Vec8 b, Vec8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// The larger; b where either is a NaN.
inline Vec8 larger(Vec8 a, Vec8 b) { return {_mm256_max_ps(a.v, b.v)}; }
// y, but 0 in lanes where x < limit.
inline Vec8 zero_below(Vec8 x, Vec8 limit, Vec8 y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.v, limit.v, _CMP_LT_OQ), y.v)};
}
// 2^n, n given as n + kRoundMagic with n in [-126, 127].
inline Vec8 power_of_two(Vec8 n_plus_magic) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(n_plus_magic.v), _mm256_set1_epi32(kRoundMagicBits - 127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(n, 23))};
}

#else

struct Vec8 {
  static constexpr int kWidth = 8;
  float v[8];

  static Vec8 splat(float x) { return {{x, x, x, x, x, x, x, x}}; }
  static Vec8 load(const float* p) {
    Vec8 r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static Vec8 load(const uint16_t* p) {
    Vec8 r;
    for (int i = 0; i < 8; ++i) r.v[i] = from_bits(static_cast<uint32_t>(p[i]) << 16);
    return r;
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }
};

template <typename F>
inline Vec8 map_lanes(F f) {
  Vec8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = f(i);
  return r;
}

inline Vec8 operator+(Vec8 a, Vec8 b) {
  return map_lanes([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec8 operator-(Vec8 a, Vec8 b) {
  return map_lanes([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec8 operator*(Vec8 a, Vec8 b) {
  return map_lanes([&](int i) { return a.v[i] * b.v[i]; });
}
// Rounded twice: without hardware for it, a true fused multiply-add costs a hundred times as much.
inline Vec8 fma(Vec8 a, Vec8 b, Vec8 c) {
  return map_lanes([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Vec8 larger(Vec8 a, Vec8 b) {
  return map_lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec8 zero_below(Vec8 x, Vec8 limit, Vec8 y) {
  return map_lanes([&](int i) { return x.v[i] < limit.v[i] ? 0.0f : y.v[i]; });
}
inline Vec8 power_of_two(Vec8 n_plus_magic) {
  return map_lanes([&](int i) { return from_bits((to_bits(n_plus_magic.v[i]) - (kRoundMagicBits - 127)) << 23); });
}

#endif

#if defined(__AVX512F__)

struct Vec16 {
  static constexpr int kWidth = 16;
  __m512 v;

  static Vec16 splat(float x) { return {_mm512_set1_ps(x)}; }
  static Vec16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec16 load(const uint16_t* p) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
};

inline Vec16 operator+(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec16 operator-(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec16 operator*(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec16 larger(Vec16 a, Vec16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec16 zero_below(Vec16 x, Vec16 limit, Vec16 y) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_NLT_UQ), y.v)};
}
inline Vec16 power_of_two(Vec16 n_plus_magic) {
  const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(n_plus_magic.v), _mm512_set1_epi32(kRoundMagicBits - 127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(n, 23))};
}

using Wide = Vec16;
#else
using Wide = Vec8;
#endif

// Sum of the lanes: halves are added until one is left, always in the same order.
template <typename V>
inline float sum_lanes(V x) {
  float lanes[V::kWidth];
  x.store(lanes);
  for (int width = V::kWidth / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

// Largest lane; exact, so the order does not matter. NaN lanes are passed over unless all are NaN.
template <typename V>
inline float largest_lane(V x) {
  float lanes[V::kWidth];
  x.store(lanes);
  float best = lanes[0];
  for (int i = 1; i < V::kWidth; ++i)
    if (lanes[i] > best || best != best) best = lanes[i];
  return best;
}

// e^x for x <= 0 (also -inf; a NaN stays a NaN), the same bits in every lane.
//
// n = round(x / ln 2), r = x - n ln 2 in two exact-enough steps, e^r by a polynomial of degree 6 fitted to
// |r| <= ln 2 / 2 (relative error 0.05 * 2^-24 before rounding), times 2^n. Relative error at most 1.5 * 2^-23 (twice
// that without a fused multiply-add). Below -87, where e^x < 2^-125 leaves the normal numbers soon, the result is 0.
template <typename V>
inline V exp_nonpositive(V x) {
  const V lowest = V::splat(-87.0f);
  const V magic = V::splat(kRoundMagic);
  const V y = larger(lowest, x);  // in this order a NaN passes
  const V shifted = y * V::splat(1.44269504f) + magic;
  const V n = shifted - magic;
  V r = fma(n, V::splat(-0.693359375f), y);  // 355/512: n * 355/512 is exact
  r = fma(n, V::splat(2.12194440e-4f), r);
  V q = V::splat(0.00138144696f);
  q = fma(q, r, V::splat(0.00836877991f));
  q = fma(q, r, V::splat(0.0416683927f));
  q = fma(q, r, V::splat(0.166665196f));
  q = fma(q, r, V::splat(0.49999994f));
  const V e = fma(r * r, q, r) + V::splat(1.0f);
  return zero_below(x, lowest, e * power_of_two(shifted));
}

inline float exp_nonpositive_scalar(float x) {
  float lanes[Vec8::kWidth];
  exp_nonpositive(Vec8::splat(x)).store(lanes);
  return lanes[0];
}

}  // namespace
}  // namespace eb
