// AVX-512 by SIMDe, and the intrinsics that its packaged version lacks: include this before anything else.
#pragma once

#include <string.h>

#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include "bytes.h"

// `convert` on both halves.
template <typename To, typename ToHalf, typename FromHalf, typename From>
static inline To emulated_halves(From a, ToHalf (*convert)(FromHalf)) {
  FromHalf halves[2];
  memcpy(halves, &a, sizeof halves);
  const ToHalf done[2] = {convert(halves[0]), convert(halves[1])};
  To result;
  memcpy(&result, done, sizeof result);
  return result;
}
static inline __m256i emulated_to_whole(__m256 a) { return _mm256_cvtps_epi32(a); }
static inline __m256 emulated_to_float(__m256i a) { return _mm256_cvtepi32_ps(a); }
#define _mm512_cvtps_epi32(a) emulated_halves<__m512i>(a, emulated_to_whole)
#define _mm512_cvtepi32_ps(a) emulated_halves<__m512>(a, emulated_to_float)

#undef _mm512_dpbusd_epi32
#undef _mm512_permutexvar_epi8
#undef _mm512_permutex2var_epi8
#undef _mm512_shuffle_epi8
#undef _mm512_movepi8_mask
#undef _mm512_mask_blend_epi8
#undef _mm512_broadcast_i32x4
#undef _mm512_srlv_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi8_epi32
#undef _mm512_extractf32x8_ps
#undef _mm512_extracti64x4_epi64
#undef _mm512_shuffle_ps
#undef _mm512_shuffle_i32x4
#define _mm512_dpbusd_epi32(sums, a, b) emulated_dpbusd(sums, a, b)
#define _mm512_gf2p8affine_epi64_epi8(x, matrices, b) emulated_affine(x, matrices)
#define _mm512_permutexvar_epi8(order, x) emulated_permute_bytes(order, x)
#define _mm512_permutex2var_epi8(low, order, high) emulated_permute_two(low, order, high)
#define _mm512_shuffle_epi8(x, order) emulated_shuffle_bytes(x, order)
#define _mm512_movepi8_mask(x) emulated_top_bits(x)
#define _mm512_mask_blend_epi8(choice, a, b) emulated_choose(choice, a, b)
#define _mm512_broadcast_i32x4(x) emulated_four_times(x)
#define _mm512_srlv_epi32(x, counts) emulated_shift_right(x, counts)
#define _mm512_shuffle_ps(a, b, choice) emulated_shuffle<choice>(a, b)
#define _mm512_shuffle_i32x4(a, b, choice) emulated_shuffle_lanes<choice>(a, b)
#define _mm512_cvtepi32_epi16(a) emulated_narrow(a)
#define _mm512_cvtepi8_epi32(a) emulated_widen(a)
#define _mm512_extractf32x8_ps(a, half) emulated_upper_half<__m256>(a)
#define _mm512_extracti64x4_epi64(a, half) emulated_upper_half<__m256i>(a)
