// Vectors of floats with one interface per instruction set: `F32` has kLanes lanes (4, 8 or 16).
//
// All operations are lane by lane except `sum`, whose order is fixed (halves are added until one lane is left).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "isa.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace eb {
namespace EB_ISA {

// bf16 and f16 of one value.
static inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

static inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

static inline float bf16_to_f32(uint16_t half) { return from_bits(static_cast<uint32_t>(half) << 16); }

// Round to nearest even; NaN stays NaN.
static inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu, sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  if (magnitude >= 0x7c00u) return from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x0400u) return from_bits(sign | to_bits(static_cast<float>(magnitude) * 0x1p-24f));
  return from_bits(sign | ((magnitude << 13) + 0x38000000u));
}

// Six-bit values of rows `row` .. of 16 (`load_six_bits`): `low` has nibbles two to a byte, `high` the top two bits four to
// a byte. So row r's nibble is at bit 4 r and its top bits are at bit 2 r of what lies there. `store_whole` stores whole
// numbers as int16 and returns their sum.
#if defined(__AVX2__)
static inline int32_t word_at(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

static inline int32_t sum_of(__m256i a) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
#endif

#if defined(EB_AVX512)

struct F32 {
  static constexpr int kLanes = 16;
  __m512 v;
};
static inline F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
static inline F32 splat(float a) { return {_mm512_set1_ps(a)}; }
static inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
static inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
static inline F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
static inline F32 round_even(F32 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
// a is a whole number in [-126, 127]: 2^a.
static inline F32 exp2_whole(F32 a) {
  const __m512i n = _mm512_cvtps_epi32(a.v);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23))};
}
static inline F32 load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
static inline F32 load_f16(const uint16_t* p) {
  const __m256 low = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256 high = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
  return {_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)};
}
static inline int32_t store_whole(int16_t* p, F32 a) {
  const __m512i whole = _mm512_cvtps_epi32(a.v);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(whole));
  return sum_of(_mm256_add_epi32(_mm512_castsi512_si256(whole), _mm512_extracti64x4_epi64(whole, 1)));
}
static inline F32 load_i8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
static inline F32 load_six_bits(const uint8_t* low, const uint8_t* high, int) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i nibble_at = _mm512_slli_epi32(_mm512_and_si512(lane, _mm512_set1_epi32(7)), 2);
  const __m512i words = _mm512_inserti64x4(_mm512_set1_epi32(word_at(low)), _mm256_set1_epi32(word_at(low + 4)), 1);
  const __m512i four = _mm512_and_si512(_mm512_srlv_epi32(words, nibble_at), _mm512_set1_epi32(15));
  const __m512i shifted = _mm512_srlv_epi32(_mm512_set1_epi32(word_at(high)), _mm512_slli_epi32(lane, 1));
  const __m512i two = _mm512_slli_epi32(_mm512_and_si512(shifted, _mm512_set1_epi32(3)), 4);
  return {_mm512_cvtepi32_ps(_mm512_or_si512(four, two))};
}

#elif defined(__AVX2__)

struct F32 {
  static constexpr int kLanes = 8;
  __m256 v;
};
static inline F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
static inline void store(float* p, F32 a) { _mm256_storeu_ps(p, a.v); }
static inline F32 splat(float a) { return {_mm256_set1_ps(a)}; }
static inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
static inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
static inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
static inline F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
static inline F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
static inline F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
static inline F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
static inline F32 abs(F32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
static inline F32 round_even(F32 a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
static inline F32 exp2_whole(F32 a) {
  const __m256i n = _mm256_cvtps_epi32(a.v);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23))};
}
static inline F32 load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
static inline F32 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
static inline int32_t store_whole(int16_t* p, F32 a) {
  const __m256i whole = _mm256_cvtps_epi32(a.v);
  const __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  return sum_of(whole);
}
static inline F32 load_i8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
static inline F32 load_six_bits(const uint8_t* low, const uint8_t* high, int row) {
  const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i words = _mm256_set1_epi32(word_at(low + row / 2)), tops = _mm256_set1_epi32(word_at(high) >> 2 * row);
  const __m256i four = _mm256_and_si256(_mm256_srlv_epi32(words, _mm256_slli_epi32(lane, 2)), _mm256_set1_epi32(15));
  const __m256i shifted = _mm256_srlv_epi32(tops, _mm256_slli_epi32(lane, 1));
  const __m256i two = _mm256_slli_epi32(_mm256_and_si256(shifted, _mm256_set1_epi32(3)), 4);
  return {_mm256_cvtepi32_ps(_mm256_or_si256(four, two))};
}

#else

struct F32 {
  static constexpr int kLanes = 4;
  float v[4];
};
#define EB_LANES(expression)                          \
  F32 r;                                              \
  for (int i = 0; i < 4; ++i) r.v[i] = (expression); \
  return r
static inline F32 load(const float* p) { EB_LANES(p[i]); }
static inline void store(float* p, F32 a) { std::memcpy(p, a.v, 16); }
static inline F32 splat(float a) { EB_LANES(a); }
static inline F32 operator+(F32 a, F32 b) { EB_LANES(a.v[i] + b.v[i]); }
static inline F32 operator-(F32 a, F32 b) { EB_LANES(a.v[i] - b.v[i]); }
static inline F32 operator*(F32 a, F32 b) { EB_LANES(a.v[i] * b.v[i]); }
static inline F32 operator/(F32 a, F32 b) { EB_LANES(a.v[i] / b.v[i]); }
static inline F32 fma(F32 a, F32 b, F32 c) { EB_LANES(a.v[i] * b.v[i] + c.v[i]); }
static inline F32 max(F32 a, F32 b) { EB_LANES(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
static inline F32 min(F32 a, F32 b) { EB_LANES(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
static inline F32 abs(F32 a) { EB_LANES(from_bits(to_bits(a.v[i]) & 0x7fffffffu)); }
// Adding and taking away 1.5 * 2^23 leaves the nearest whole number (ties to even) for |a| < 2^22.
static inline F32 round_even(F32 a) { EB_LANES((a.v[i] + 0x1.8p23f) - 0x1.8p23f); }
static inline F32 exp2_whole(F32 a) { EB_LANES(from_bits(static_cast<uint32_t>(static_cast<int32_t>(a.v[i]) + 127) << 23)); }
static inline F32 load_bf16(const uint16_t* p) { EB_LANES(bf16_to_f32(p[i])); }
static inline F32 load_f16(const uint16_t* p) { EB_LANES(f16_to_f32(p[i])); }
static inline int32_t store_whole(int16_t* p, F32 a) {
  int32_t total = 0;
  for (int i = 0; i < 4; ++i) total += p[i] = static_cast<int16_t>(a.v[i]);
  return total;
}
static inline F32 load_i8(const int8_t* p) { EB_LANES(static_cast<float>(p[i])); }
static inline F32 load_six_bits(const uint8_t* low, const uint8_t* high, int row) {
  EB_LANES(static_cast<float>((low[(row + i) / 2] >> 4 * ((row + i) % 2) & 15) |
                              (high[(row + i) / 4] >> 2 * ((row + i) % 4) & 3) << 4));
}
#undef EB_LANES

#endif

// The first n (1..kLanes) lanes from memory, the others `rest`.
static inline F32 load_part(const float* p, int n, float rest = 0.0f) {
  float lanes[F32::kLanes];
  for (int i = 0; i < F32::kLanes; ++i) lanes[i] = i < n ? p[i] : rest;
  return load(lanes);
}

static inline void store_part(float* p, F32 a, int n) {
  float lanes[F32::kLanes];
  store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

static inline float sum(F32 a) {
  float lanes[F32::kLanes];
  store(lanes, a);
  for (int half = F32::kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

#if defined(__AVX2__)

static inline float largest_of(__m256 a) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
#if defined(EB_AVX512)
static inline float largest(F32 a) {
  return largest_of(_mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1)));
}
#else
static inline float largest(F32 a) { return largest_of(a.v); }
#endif

#else

static inline float largest(F32 a) {
  float lanes[F32::kLanes];
  store(lanes, a);
  float best = lanes[0];
  for (int i = 1; i < F32::kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

#endif

}  // namespace EB_ISA
}  // namespace eb
