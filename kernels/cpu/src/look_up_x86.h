// Tables of up to 256 bytes in registers.
#pragma once

#include <immintrin.h>

#include "look_up.h"

namespace eb {
namespace EB_ISA {

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

// 32 codes of B bits at once. An instruction looks up 16 entries by the low four bits of a code, and finds 0 where
// bit 7 is set. So part k holds how entries 16 k + i and 16 (k - 1) + i differ, and is looked up by code - 16 k: it
// changes what was found for all codes from 16 k on. Codes of eight bits have two such tables, and bit 7 chooses.
template <int B>
struct TableOf32 {
  static constexpr bool kTable = true;
  static constexpr int kParts = B <= 4 ? 1 : 1 << (B - 4);
  static constexpr int kSteps = kParts < 8 ? kParts : 8;
  __m256i part[kParts];

  explicit TableOf32(const uint8_t* row) {
    for (int k = 0; k < kParts; ++k)
      part[k] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row) + k));
    for (int k = kParts - 1; k > 0; --k)
      if (k % kSteps != 0) part[k] = _mm256_xor_si256(part[k], part[k - 1]);
  }

  __m256i operator()(__m256i codes) const {
    const __m256i low = B < 8 ? codes : _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
    __m256i found = _mm256_shuffle_epi8(part[0], low), upper = _mm256_shuffle_epi8(part[kParts - kSteps], low);
#pragma GCC unroll 8
    for (int k = 1; k < kSteps; ++k) {
      const __m256i index = _mm256_sub_epi8(low, _mm256_set1_epi8(static_cast<char>(16 * k)));
      found = _mm256_xor_si256(found, _mm256_shuffle_epi8(part[k], index));
      if (B == 8) upper = _mm256_xor_si256(upper, _mm256_shuffle_epi8(part[kParts - kSteps + k], index));
    }
    return B < 8 ? found : _mm256_blendv_epi8(found, upper, codes);
  }
};

template <int B>
using ByteTable = TableOf32<B>;

#endif

}  // namespace EB_ISA
}  // namespace eb
