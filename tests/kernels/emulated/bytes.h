// The newer intrinsics of AVX-512, lane by lane: what GFNI, VNNI and VBMI do, in plain C++.
#pragma once

#include <stdint.h>
#include <string.h>

template <typename Lane>
struct Lanes {
  static constexpr int kCount = 64 / sizeof(Lane);
  Lane at[kCount];
  template <typename Vector>
  explicit Lanes(const Vector& from) { memcpy(at, &from, 64); }
  Lanes() : at() {}
  template <typename Vector>
  Vector as() const {
    Vector to;
    memcpy(&to, at, 64);
    return to;
  }
};

static inline __m512i emulated_dpbusd(__m512i sums, __m512i a, __m512i b) {
  Lanes<int32_t> result(sums);
  const Lanes<uint8_t> x(a);
  const Lanes<int8_t> y(b);
  for (int i = 0; i < 64; ++i) result.at[i / 4] += x.at[i] * y.at[i];
  return result.as<__m512i>();
}
static inline __m512i emulated_affine(__m512i bytes, __m512i matrices) {
  const Lanes<uint8_t> x(bytes), rows(matrices);
  Lanes<uint8_t> result;
  for (int i = 0; i < 64; ++i)
    for (int bit = 0; bit < 8; ++bit)
      result.at[i] |= static_cast<uint8_t>((__builtin_popcount(rows.at[i / 8 * 8 + 7 - bit] & x.at[i]) & 1) << bit);
  return result.as<__m512i>();
}
static inline __m512i emulated_permute_bytes(__m512i order, __m512i bytes) {
  const Lanes<uint8_t> from(order), x(bytes);
  Lanes<uint8_t> result;
  for (int i = 0; i < 64; ++i) result.at[i] = x.at[from.at[i] & 63];
  return result.as<__m512i>();
}
static inline __m512i emulated_permute_two(__m512i low, __m512i order, __m512i high) {
  const Lanes<uint8_t> from(order), x(low), y(high);
  Lanes<uint8_t> result;
  for (int i = 0; i < 64; ++i) result.at[i] = (from.at[i] & 64 ? y : x).at[from.at[i] & 63];
  return result.as<__m512i>();
}
static inline __m512i emulated_shuffle_bytes(__m512i bytes, __m512i order) {
  const Lanes<uint8_t> from(order), x(bytes);
  Lanes<uint8_t> result;
  for (int i = 0; i < 64; ++i) result.at[i] = from.at[i] & 128 ? 0 : x.at[i / 16 * 16 + (from.at[i] & 15)];
  return result.as<__m512i>();
}
static inline uint64_t emulated_top_bits(__m512i bytes) {
  const Lanes<uint8_t> x(bytes);
  uint64_t result = 0;
  for (int i = 0; i < 64; ++i) result |= static_cast<uint64_t>(x.at[i] >> 7) << i;
  return result;
}
static inline __m512i emulated_choose(uint64_t second, __m512i a, __m512i b) {
  const Lanes<uint8_t> x(a), y(b);
  Lanes<uint8_t> result;
  for (int i = 0; i < 64; ++i) result.at[i] = (second >> i & 1 ? y : x).at[i];
  return result.as<__m512i>();
}
static inline __m512i emulated_four_times(__m128i lane) {
  Lanes<uint8_t> result;
  for (int i = 0; i < 4; ++i) memcpy(result.at + 16 * i, &lane, 16);
  return result.as<__m512i>();
}
static inline __m512i emulated_shift_right(__m512i words, __m512i counts) {
  const Lanes<uint32_t> x(words), count(counts);
  Lanes<uint32_t> result;
  for (int i = 0; i < 16; ++i) result.at[i] = count.at[i] < 32 ? x.at[i] >> count.at[i] : 0;
  return result.as<__m512i>();
}
template <int kChoice>
static inline __m512 emulated_shuffle(__m512 a, __m512 b) {
  const Lanes<uint32_t> x(a), y(b);
  Lanes<uint32_t> result;
  for (int i = 0; i < 16; ++i) result.at[i] = (i % 4 < 2 ? x : y).at[i / 4 * 4 + (kChoice >> 2 * (i % 4) & 3)];
  return result.as<__m512>();
}
template <int kChoice>
static inline __m512i emulated_shuffle_lanes(__m512i a, __m512i b) {
  const Lanes<uint32_t> x(a), y(b);
  Lanes<uint32_t> result;
  for (int i = 0; i < 16; ++i) result.at[i] = (i < 8 ? x : y).at[4 * (kChoice >> 2 * (i / 4) & 3) + i % 4];
  return result.as<__m512i>();
}
static inline __m256i emulated_narrow(__m512i words) {
  const Lanes<int32_t> x(words);
  int16_t low[16];
  for (int i = 0; i < 16; ++i) low[i] = static_cast<int16_t>(x.at[i]);
  __m256i result;
  memcpy(&result, low, sizeof result);
  return result;
}
static inline __m512i emulated_widen(__m128i bytes) {
  int8_t from[16];
  memcpy(from, &bytes, sizeof from);
  Lanes<int32_t> result;
  for (int i = 0; i < 16; ++i) result.at[i] = from[i];
  return result.as<__m512i>();
}
template <typename Half, typename Whole>
static inline Half emulated_upper_half(const Whole& whole) {
  const Lanes<uint32_t> x(whole);
  Half result;
  memcpy(&result, x.at + 8, sizeof result);
  return result;
}
