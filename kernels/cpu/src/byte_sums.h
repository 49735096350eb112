// The sums of one row of x and one group of a strip as products of bytes.
//
// An activation q is 256 high + low; its signed high bytes are multiplied with unsigned codes, its unsigned low bytes
// with signed codes, which are the same up to seven planes (a table's are not, see `high_start`). All sums are the exact integers of linear_kernels.h.
#pragma once

#include "byte_codes.h"
#include "strip_x86.h"

namespace eb {
namespace EB_ISA {

constexpr int kSharing = 4;  // up to so many planes two codes share a byte while they are transposed

// Sums of rows 0 - 3 and 4 - 7 in lanes, and of rows 8 - 11 and 12 - 15.
struct RowSums {
  Bytes low_rows, high_rows;
};

// Sums of the first half of a group's columns, and of the second.
struct HalfSums {
  Sums16 first, second;
};

// Four dwords of a row in a lane, four times: their sums side by side.
static inline Bytes sum_of_fours(Bytes a, Bytes b, Bytes c, Bytes d) {
  const Bytes ab = EB_V(add_epi32)(EB_V(unpacklo_epi32)(a, b), EB_V(unpackhi_epi32)(a, b));
  const Bytes cd = EB_V(add_epi32)(EB_V(unpacklo_epi32)(c, d), EB_V(unpackhi_epi32)(c, d));
  return EB_V(add_epi32)(EB_V(unpacklo_epi64)(ab, cd), EB_V(unpackhi_epi64)(ab, cd));
}

static inline Bytes flip_top(Bytes bytes) {
  return EB_V_BITS(xor)(bytes, EB_V(set1_epi8)(static_cast<char>(0x80)));
}

// A table's entries plus 128 are multiplied with high bytes, the entries themselves with low ones. Where the sums of
// high bytes start from here, those of entries come out.
template <typename Look>
static inline Bytes high_start(Bytes high) {
  if (!Look::kTable) return EB_V_BITS(setzero)();
  const Bytes excess = dot_bytes(EB_V_BITS(setzero)(), EB_V(set1_epi8)(static_cast<char>(0x80)), high);
  return EB_V(sub_epi32)(EB_V_BITS(setzero)(), excess);
}

// Up to four planes: the high nibbles are codes of even columns, the low ones of odd columns, of two rows a lane.
template <int B, typename Look>
static inline RowSums few_planes(const uint8_t* const* lines, int offset, const int16_t* q, const Look& look) {
  Bytes r[kSharing], sums[4];
  load_planes<B>(lines, offset, r);
  const Bytes a = EB_V(unpacklo_epi8)(r[0], r[1]), b = EB_V(unpackhi_epi8)(r[0], r[1]);
  const Bytes c = EB_V(unpacklo_epi8)(r[2], r[3]), d = EB_V(unpackhi_epi8)(r[2], r[3]);
  const Bytes matrices[4] = {EB_V(unpacklo_epi16)(a, c), EB_V(unpackhi_epi16)(a, c), EB_V(unpacklo_epi16)(b, d),
                             EB_V(unpackhi_epi16)(b, d)};
  const Bytes low_even = ordered(q, kLowEven), low_odd = ordered(q, kLowOdd);
  const Bytes high_even = ordered(q, kHighEven), high_odd = ordered(q, kHighOdd);
  const Bytes start = EB_V(add_epi32)(high_start<Look>(high_even), high_start<Look>(high_odd));
  const Bytes nibble = EB_V(set1_epi8)(15);
#pragma GCC unroll 4
  for (int m = 0; m < 4; ++m) {
    const Bytes both = transposed(matrices[m]);
    const Bytes even = look(EB_V_BITS(and)(EB_V(srli_epi16)(both, 4), nibble));
    const Bytes odd = look(EB_V_BITS(and)(both, nibble));
    const Bytes high = dot_bytes(dot_bytes(start, even, high_even), odd, high_odd);
    const Bytes signed_even = Look::kTable ? flip_top(even) : even, signed_odd = Look::kTable ? flip_top(odd) : odd;
    sums[m] = dot_bytes(dot_bytes(EB_V(slli_epi32)(high, 8), low_even, signed_even), low_odd, signed_odd);
  }
  const auto two_rows = [](Bytes x, Bytes y) { return EB_V(add_epi32)(pick<0x88>(x, y), pick<0xdd>(x, y)); };
  return {two_rows(sums[0], sums[1]), two_rows(sums[2], sums[3])};
}

// Up to eight planes: a lane has the 16 codes of one row. Half of the rows (see `byte_codes`).
template <int B, bool kUpper, typename Look>
static inline Bytes half_of_rows(const uint8_t* const* lines, int offset, Bytes low, Bytes high, const Look& look) {
  Bytes codes[4], sums[4];
  byte_codes<B, kUpper>(lines, offset, codes);
  const Bytes start = high_start<Look>(high);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const Bytes value = look(codes[k]);
    const Bytes sum = EB_V(slli_epi32)(dot_bytes(start, value, high), 8);
    sums[k] = dot_bytes(sum, low, B < 8 && !Look::kTable ? value : flip_top(value));
  }
  return sum_of_fours(sums[0], sums[1], sums[2], sums[3]);
}

template <int B, typename Look>
static inline RowSums many_planes(const uint8_t* const* lines, int offset, const int16_t* q, const Look& look) {
  const Bytes low = ordered(q, kLow), high = ordered(q, kHigh);
  RowSums result{half_of_rows<B, false>(lines, offset, low, high, look),
                 half_of_rows<B, true>(lines, offset, low, high, look)};
  if (B == 8 && !Look::kTable) {  // codes of eight bits were taken as code - 128
    const Bytes missing = dot_bytes(EB_V_BITS(setzero)(), low, EB_V(set1_epi8)(static_cast<char>(0x80)));
    const Bytes of_lane = sum_of_fours(missing, missing, missing, missing);
    result.low_rows = EB_V(sub_epi32)(result.low_rows, of_lane);
    result.high_rows = EB_V(sub_epi32)(result.high_rows, of_lane);
  }
  return result;
}

template <int B, typename Look>
static inline RowSums row_sums(const uint8_t* const* lines, int offset, const int16_t* q, const Look& look) {
  if constexpr (B <= kSharing)
    return few_planes<B>(lines, offset, q, look);
  else
    return many_planes<B>(lines, offset, q, look);
}

// The line at `offset` of each plane times 32 activations. Of a table: its entries, not their bytes (zero 128).
template <int B, typename Look>
static inline HalfSums byte_sums(const uint8_t* const* lines, int offset, const int16_t* q, const Look& look) {
#if defined(EB_AVX512)
  const RowSums rows = row_sums<B>(lines, offset, q, look);
  return {{_mm512_shuffle_i32x4(rows.low_rows, rows.high_rows, 0x44)},
          {_mm512_shuffle_i32x4(rows.low_rows, rows.high_rows, 0xee)}};
#else
  const RowSums first = row_sums<B>(lines, offset, q, look);
  const RowSums second = row_sums<B>(lines, offset + kLineBytes / 2, q + kGroupCols / 2, look);
  return {{first.low_rows, first.high_rows}, {second.low_rows, second.high_rows}};
#endif
}

}  // namespace EB_ISA
}  // namespace eb
