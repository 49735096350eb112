// From planes to bytes with AVX-512's GFNI.
//
// A multiplication of bit matrices by the rows of the unit matrix is a transpose of 8 x 8 bits. So where the planes'
// bytes of one place of a line lie side by side, one instruction makes 64 codes of them. A 128-bit lane then has codes
// of whole rows, in lanes 0 and 1 of columns 0 .. 15 of the group, in lanes 2 and 3 of 16 .. 31: first those of even
// columns, then those of odd ones. Activations are put into the same order.
#pragma once

#include <immintrin.h>

#include "linear_kernels.h"

namespace eb {
namespace EB_ISA {

// For every byte of a register which byte of a group's int16 activations it takes.
struct Order {
  alignas(64) uint8_t from[64];
};

// Codes of a lane: columns 2i, i = 0 .. 7, then 2i + 1. `parity` 0 or 1: only these columns, for each of two rows.
constexpr Order order(int parity, bool high) {
  Order result{};
  for (int i = 0; i < 64; ++i) {
    const int column = 16 * (i / 32) + 2 * (i % 8) + (parity < 0 ? i / 8 % 2 : parity);
    result.from[i] = static_cast<uint8_t>(2 * column + (high ? 1 : 0));
  }
  return result;
}

constexpr Order kLow = order(-1, false), kHigh = order(-1, true);
constexpr Order kLowEven = order(0, false), kHighEven = order(0, true);
constexpr Order kLowOdd = order(1, false), kHighOdd = order(1, true);

static inline __m512i ordered(__m512i q, const Order& by) {
  return _mm512_permutexvar_epi8(_mm512_load_si512(by.from), q);
}

// Row t of the bit matrices, t = 0 the codes' most significant bit.
template <int B, int kBytes>
static inline void load_planes(const uint8_t* const* lines, int offset, __m512i (&row)[kBytes]) {
  for (int t = 0; t < kBytes; ++t)
    row[t] = t < kBytes - B ? _mm512_setzero_si512() : _mm512_loadu_si512(lines[t - (kBytes - B)] + offset);
}

static inline __m512i transposed(__m512i matrices) {
  return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201)), matrices, 0);
}

// Register k has codes of row k in lane 0 and of row 4 + k in lane 1 (k < 4; beyond: of rows 4 + k and 8 + k), columns
// 0 .. 15 of the group, and the same rows' columns 16 .. 31 in lanes 2 and 3.
template <int B>
static inline void byte_codes(const uint8_t* const* lines, int offset, __m512i (&codes)[8]) {
  __m512i r[8], pairs[8], fours[8];
  load_planes<B>(lines, offset, r);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm512_unpacklo_epi8(r[2 * i], r[2 * i + 1]);
    pairs[4 + i] = _mm512_unpackhi_epi8(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // planes 0 - 3 and 4 - 7 of the same places come one after the other
    const int from = 4 * (i / 2) + 2 * (i % 2), to = 4 * (i / 2) + i % 2;
    fours[to] = _mm512_unpacklo_epi16(pairs[from], pairs[from + 1]);
    fours[to + 2] = _mm512_unpackhi_epi16(pairs[from], pairs[from + 1]);
  }
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const __m512i left = fours[k / 2 * 2], right = fours[k / 2 * 2 + 1];
    codes[k] = transposed(k % 2 == 0 ? _mm512_unpacklo_epi32(left, right) : _mm512_unpackhi_epi32(left, right));
  }
}

}  // namespace EB_ISA
}  // namespace eb
