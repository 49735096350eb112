// Vectors of bytes for products of bytes: 512 bits with AVX-512's VBMI, VNNI and GFNI, or 256 with AVX2, AVX-VNNI and GFNI.
//
// EB_V(f) and EB_V_BITS(f) are intrinsics of the vectors' width: _mm512_f and _mm512_f_si512, or those of 256 bits.
// EB_V_SPLAT has 64 bits everywhere.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "isa.h"

namespace eb {
namespace EB_ISA {

#if defined(EB_AVX512)

#define EB_V(f) _mm512_##f
#define EB_V_BITS(f) _mm512_##f##_si512
#define EB_V_SPLAT _mm512_set1_epi64

using Bytes = __m512i;

template <int kChoice>
static inline Bytes pick(Bytes a, Bytes b) {
  return _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), kChoice));
}
static inline Bytes dot_bytes(Bytes sums, Bytes any, Bytes with_sign) {
  return _mm512_dpbusd_epi32(sums, any, with_sign);
}

#else

#define EB_V(f) _mm256_##f
#define EB_V_BITS(f) _mm256_##f##_si256
#define EB_V_SPLAT _mm256_set1_epi64x

using Bytes = __m256i;

template <int kChoice>
static inline Bytes pick(Bytes a, Bytes b) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), kChoice));
}
static inline Bytes dot_bytes(Bytes sums, Bytes any, Bytes with_sign) {
  return _mm256_dpbusd_avx_epi32(sums, any, with_sign);
}

#endif

static inline Bytes load_line(const uint8_t* p) {
  return EB_V_BITS(loadu)(reinterpret_cast<const Bytes*>(p));
}

// Bytes of a group's int16 activations, put into the order of the codes (byte_codes.h).
//
// A lane has columns 2i, i = 0 .. 7, then 2i + 1; lanes 0 and 1 those of the group's first half, lanes 2 and 3 those of
// its second (vectors of 256 bits: of the half that is given). `parity` 0 or 1: only these columns, twice.
struct Order {
#if defined(EB_AVX512)
  alignas(64) uint8_t from[64];
#else
  alignas(32) uint8_t first[32], second[32];  // from the first eight columns and from the others; 0x80: none
#endif
};

constexpr Order order(int parity, bool high) {
  Order result{};
  for (int i = 0; i < static_cast<int>(sizeof(Bytes)); ++i) {
    const int column = 16 * (i / 32) + 2 * (i % 8) + (parity < 0 ? i / 8 % 2 : parity);
    const int from = 2 * column + (high ? 1 : 0);
#if defined(EB_AVX512)
    result.from[i] = static_cast<uint8_t>(from);
#else
    result.first[i] = static_cast<uint8_t>(from < 16 ? from : 0x80);
    result.second[i] = static_cast<uint8_t>(from < 16 ? 0x80 : from - 16);
#endif
  }
  return result;
}

constexpr Order kLow = order(-1, false), kHigh = order(-1, true);
constexpr Order kLowEven = order(0, false), kHighEven = order(0, true);
constexpr Order kLowOdd = order(1, false), kHighOdd = order(1, true);

static inline Bytes ordered(const int16_t* q, const Order& by) {
#if defined(EB_AVX512)
  return _mm512_permutexvar_epi8(_mm512_load_si512(by.from), _mm512_loadu_si512(q));
#else
  const __m128i* eight = reinterpret_cast<const __m128i*>(q);
  const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128(eight));
  const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128(eight + 1));
  return _mm256_or_si256(_mm256_shuffle_epi8(first, _mm256_load_si256(reinterpret_cast<const __m256i*>(by.first))),
                         _mm256_shuffle_epi8(second, _mm256_load_si256(reinterpret_cast<const __m256i*>(by.second))));
#endif
}

}  // namespace EB_ISA
}  // namespace eb
