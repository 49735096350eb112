// From planes to bytes with GFNI.
//
// A multiplication of bit matrices by the rows of the unit matrix is a transpose of 8 x 8 bits. So where the planes'
// bytes of one place of a line lie side by side, one instruction makes a vector of codes of them. A 128-bit lane then
// has codes of whole rows: of the first half of the group's columns in lanes 0 and 1, of the second in lanes 2 and 3.
// Vectors of 256 bits take a line's halves one after the other.
#pragma once

#include "byte_vectors.h"
#include "linear_kernels.h"

namespace eb {
namespace EB_ISA {

// Row t of the bit matrices, t = 0 the codes' most significant bit.
template <int B, int kBytes>
static inline void load_planes(const uint8_t* const* lines, int offset, Bytes (&row)[kBytes]) {
  for (int t = 0; t < kBytes; ++t)
    row[t] = t < kBytes - B ? EB_V_BITS(setzero)() : load_line(lines[t - (kBytes - B)] + offset);
}

static inline Bytes transposed(Bytes matrices) {
  return EB_V(gf2p8affine_epi64_epi8)(EB_V_SPLAT(static_cast<int64_t>(0x8040201008040201)), matrices, 0);
}

template <bool kUpper>
static inline Bytes zip_bytes(Bytes a, Bytes b) {
  return kUpper ? EB_V(unpackhi_epi8)(a, b) : EB_V(unpacklo_epi8)(a, b);
}

// Register k has codes of row k in lane 0 and of row 4 + k in lane 1 (kUpper: of rows 8 + k and 12 + k), of the first
// half of the columns, and the same rows' second half in lanes 2 and 3.
template <int B, bool kUpper>
static inline void byte_codes(const uint8_t* const* lines, int offset, Bytes (&codes)[4]) {
  Bytes r[8], pairs[4], fours[4];
  load_planes<B>(lines, offset, r);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) pairs[i] = zip_bytes<kUpper>(r[2 * i], r[2 * i + 1]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {  // planes 0 - 3, planes 4 - 7
    fours[i] = EB_V(unpacklo_epi16)(pairs[2 * i], pairs[2 * i + 1]);
    fours[i + 2] = EB_V(unpackhi_epi16)(pairs[2 * i], pairs[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    codes[i] = transposed(EB_V(unpacklo_epi32)(fours[i], fours[i + 1]));
    codes[i + 1] = transposed(EB_V(unpackhi_epi32)(fours[i], fours[i + 1]));
  }
}

}  // namespace EB_ISA
}  // namespace eb
