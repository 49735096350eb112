// Tables of up to 256 bytes in registers.
#pragma once

#include <immintrin.h>

#include "look_up.h"

namespace eb {
namespace EB_ISA {

// 32 codes of B bits at once: an instruction looks up 16 entries, and each bit above the fourth chooses between two.
template <int B>
struct TableOf32 {
  static constexpr bool kTable = true;
  static constexpr int kParts = B <= 4 ? 1 : 1 << (B - 4);
  __m256i part[kParts];

  explicit TableOf32(const uint8_t* row) {
    for (int k = 0; k < kParts; ++k)
      part[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row) + k));
  }

  __m256i operator()(__m256i codes) const {
    // Bits 4 - 6 change nothing to the instruction, bit 7 would make a zero.
    const __m256i index = B < 8 ? codes : _mm256_and_si256(codes, _mm256_set1_epi8(0x0f));
    __m256i found[kParts];
#pragma GCC unroll 16
    for (int k = 0; k < kParts; ++k) found[k] = _mm256_shuffle_epi8(part[k], index);
#pragma GCC unroll 4
    for (int bit = 4; bit < B; ++bit) {
      const __m256i upper = _mm256_slli_epi16(codes, 7 - bit);  // the bit on top of its byte
#pragma GCC unroll 8
      for (int k = 0; k < kParts >> (bit - 3); ++k)
        found[k] = _mm256_blendv_epi8(found[2 * k], found[2 * k + 1], upper);
    }
    return found[0];
  }
};

#if defined(EB_AVX512)

// 64 codes of B bits at once: up to six bits are one instruction.
template <int B>
struct TableOf64 {
  static constexpr bool kTable = true;
  static constexpr int kParts = B <= 6 ? 1 : 1 << (B - 6);
  __m512i part[kParts];

  explicit TableOf64(const uint8_t* row) {
    if (B <= 4)
      part[0] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
    else
      for (int k = 0; k < kParts; ++k) part[k] = _mm512_loadu_si512(row + 64 * k);
  }

  __m512i operator()(__m512i codes) const {
    if constexpr (B <= 4) {
      return _mm512_shuffle_epi8(part[0], codes);
    } else if constexpr (B <= 6) {
      return _mm512_permutexvar_epi8(codes, part[0]);
    } else if constexpr (B == 7) {
      return _mm512_permutex2var_epi8(part[0], codes, part[1]);
    } else {
      const __m512i lower = _mm512_permutex2var_epi8(part[0], codes, part[1]);
      const __m512i upper = _mm512_permutex2var_epi8(part[kParts - 2], codes, part[kParts - 1]);
      return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), lower, upper);
    }
  }
};

template <int B>
using ByteTable = TableOf64<B>;

#else

template <int B>
using ByteTable = TableOf32<B>;

#endif

}  // namespace EB_ISA
}  // namespace eb
