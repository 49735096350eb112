// AVX-512 by SIMDe, and the intrinsics that its packaged version lacks: include this before anything else.
#pragma once

#include <string.h>

#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

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
