// One row of x times a strip with AVX-512's VNNI: products of bytes.
//
// An activation q is 256 high + low; its signed high bytes are multiplied with unsigned codes, its unsigned low bytes
// with signed codes, which are the same up to seven planes. All sums are the exact integers of linear_kernels.h.
#pragma once

#include "byte_codes.h"

namespace eb {
namespace EB_ISA {

constexpr int kSharing = 4;  // up to so many planes two codes share a byte while they are transposed

// Exact sums of 16 rows; those of columns 0 .. 15 apart from those of 16 .. 31.
struct HalfSums {
  __m512i first, second;
};

// From rows 0 - 3 and 4 - 7, and 8 - 11 and 12 - 15, in lanes.
static inline HalfSums halves_of(__m512i low_rows, __m512i high_rows) {
  return {_mm512_shuffle_i32x4(low_rows, high_rows, 0x44), _mm512_shuffle_i32x4(low_rows, high_rows, 0xee)};
}

template <int kChoice>
static inline __m512i pick(__m512i a, __m512i b) {
  return _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), kChoice));
}

// Four dwords of a row in a lane, four times: their sums side by side.
static inline __m512i sum_of_fours(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

// Up to four planes: the high nibbles are codes of even columns, the low ones of odd columns, of two rows a lane.
template <int B>
static inline HalfSums few_planes(const uint8_t* const* lines, int offset, __m512i q) {
  __m512i r[kSharing], sums[4];
  load_planes<B>(lines, offset, r);
  const __m512i a = _mm512_unpacklo_epi8(r[0], r[1]), b = _mm512_unpackhi_epi8(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi8(r[2], r[3]), d = _mm512_unpackhi_epi8(r[2], r[3]);
  const __m512i matrices[4] = {_mm512_unpacklo_epi16(a, c), _mm512_unpackhi_epi16(a, c), _mm512_unpacklo_epi16(b, d),
                               _mm512_unpackhi_epi16(b, d)};
  const __m512i low_even = ordered(q, kLowEven), low_odd = ordered(q, kLowOdd);
  const __m512i high_even = ordered(q, kHighEven), high_odd = ordered(q, kHighOdd);
  const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int m = 0; m < 4; ++m) {
    const __m512i both = transposed(matrices[m]);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), odd = _mm512_and_si512(both, nibble);
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), even, high_even);
    sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum, odd, high_odd), 8);
    sums[m] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, low_even, even), low_odd, odd);
  }
  const auto two_rows = [](__m512i x, __m512i y) { return _mm512_add_epi32(pick<0x88>(x, y), pick<0xdd>(x, y)); };
  return halves_of(two_rows(sums[0], sums[1]), two_rows(sums[2], sums[3]));
}

// Up to eight planes: a lane has the 16 codes of one row.
template <int B>
static inline HalfSums many_planes(const uint8_t* const* lines, int offset, __m512i q) {
  __m512i codes[8], sums[8];
  byte_codes<B>(lines, offset, codes);
  const __m512i low = ordered(q, kLow), high = ordered(q, kHigh);
  const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const __m512i sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[k], high), 8);
    sums[k] = _mm512_dpbusd_epi32(sum, low, B < 8 ? codes[k] : _mm512_xor_si512(codes[k], top));
  }
  __m512i low_rows = sum_of_fours(sums[0], sums[1], sums[2], sums[3]);
  __m512i high_rows = sum_of_fours(sums[4], sums[5], sums[6], sums[7]);
  if (B == 8) {  // codes of eight bits were taken as code - 128
    const __m512i missing = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, top);
    const __m512i of_lane = sum_of_fours(missing, missing, missing, missing);
    low_rows = _mm512_sub_epi32(low_rows, of_lane);
    high_rows = _mm512_sub_epi32(high_rows, of_lane);
  }
  return halves_of(low_rows, high_rows);
}

// `add_group` of strip.h with the accumulators in a register.
template <Form kForm, bool kFull>
static inline __m512 add_sums(const CodeBook& book, __m512i sums, const ActGroup& act, int32_t sum, const float* s,
                              const float* m, __m512 total) {
  if (kFull) sums = _mm512_sub_epi32(sums, _mm512_set1_epi32(book.zero * sum));
  __m512 f = _mm512_cvtepi32_ps(sums);
  if (!kFull) f = _mm512_fmadd_ps(f, _mm512_set1_ps(book.step), _mm512_set1_ps(-book.offset * static_cast<float>(sum)));
  total = _mm512_fmadd_ps(f, _mm512_mul_ps(_mm512_set1_ps(act.scale), _mm512_loadu_ps(s)), total);
  if (kForm == Form::minimum) total = _mm512_fmadd_ps(_mm512_set1_ps(act.scaled_sum), _mm512_loadu_ps(m), total);
  return total;
}

template <Form kForm, bool kFull, int B>
static void gemv(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* out) {
  __m512 total = _mm512_loadu_ps(out);
  for (int g = 0; g < part.groups; ++g, ++act) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    const __m512i q = _mm512_loadu_si512(act->q);
    const HalfSums sums = B <= kSharing ? few_planes<(B <= kSharing ? B : 1)>(part.lines, g * kLineBytes, q)
                                        : many_planes<B>(part.lines, g * kLineBytes, q);
    if (kForm == Form::halves) {
      const float* s = scales.s + 2 * g * kStripRows;
      total = add_sums<kForm, kFull>(book, sums.first, *act, act->sum_low, s, nullptr, total);
      total = add_sums<kForm, kFull>(book, sums.second, *act, act->sum - act->sum_low, s + kStripRows, nullptr, total);
    } else {
      total = add_sums<kForm, kFull>(book, _mm512_add_epi32(sums.first, sums.second), *act, act->sum,
                                     scales.s + g * kStripRows, scales.m + g * kStripRows, total);
    }
  }
  _mm512_storeu_ps(out, total);
}

}  // namespace EB_ISA
}  // namespace eb
