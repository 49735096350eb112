// 16 rows x 2 columns per step: two vectors of 256 bits, or one of 512 with a fused multiply-add of integers.
#pragma once

#include <immintrin.h>

#include "linear_kernels.h"
#include "look_up_x86.h"

namespace eb {
namespace EB_ISA {

static inline __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

// Keeps the compiler from moving the computation of `value` past this point: left to itself it starts several
// products at once and spills the sums.
template <typename Vector>
static inline void pin(Vector& value) {
#if defined(EB_AVX512) && !defined(EB_EMULATED_AVX512)
  __asm__ volatile("" : "+v"(value));
#elif defined(__GNUC__) && !defined(EB_AVX512)
  __asm__ volatile("" : "+x"(value));
#else
  (void)value;
#endif
}

static inline int32_t pair_bits(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, 4);
  return both;
}

#if defined(EB_AVX512)

struct Codes16 {
  __m512i v;
};
struct Sums16 {
  __m512i v;
};

static inline Codes16 join(__m256i rows0, __m256i rows8) {
  return {_mm512_inserti64x4(_mm512_castsi256_si512(rows0), rows8, 1)};
}
static inline Codes16 load_codes(const int16_t* p) { return {_mm512_loadu_si512(p)}; }
static inline void store_codes(int16_t* p, Codes16 a) { _mm512_storeu_si512(p, a.v); }
static inline Codes16 splat_codes(int16_t value) { return {_mm512_set1_epi16(value)}; }
static inline Codes16 subtract(Codes16 a, Codes16 b) { return {_mm512_sub_epi16(a.v, b.v)}; }
static inline Sums16 splat_sums(int32_t value) { return {_mm512_set1_epi32(value)}; }
static inline F32 to_f32(const Sums16& sums, int) { return {_mm512_cvtepi32_ps(sums.v)}; }
static inline Sums16 plus(const Sums16& a, const Sums16& b) { return {_mm512_add_epi32(a.v, b.v)}; }
static inline Sums16 minus(const Sums16& a, int32_t b) { return {_mm512_sub_epi32(a.v, _mm512_set1_epi32(b))}; }
static inline Sums16 dot(Sums16 sums, Codes16 codes, const int16_t* pair) {
  sums.v = _mm512_dpwssd_epi32(sums.v, codes.v, _mm512_set1_epi32(pair_bits(pair)));
  pin(sums.v);
  return sums;
}

#else

struct Codes16 {
  __m256i rows0, rows8;
};
struct Sums16 {
  __m256i rows0, rows8;
};

static inline Codes16 join(__m256i rows0, __m256i rows8) { return {rows0, rows8}; }
static inline Codes16 load_codes(const int16_t* p) { return {load_bytes(p), load_bytes(p + 16)}; }
static inline void store_codes(int16_t* p, Codes16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.rows0);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 16), a.rows8);
}
static inline Codes16 splat_codes(int16_t value) { return {_mm256_set1_epi16(value), _mm256_set1_epi16(value)}; }
static inline Codes16 subtract(Codes16 a, Codes16 b) {
  return {_mm256_sub_epi16(a.rows0, b.rows0), _mm256_sub_epi16(a.rows8, b.rows8)};
}
static inline Sums16 splat_sums(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
static inline F32 to_f32(const Sums16& sums, int vector) {
  return {_mm256_cvtepi32_ps(vector == 0 ? sums.rows0 : sums.rows8)};
}
static inline Sums16 plus(const Sums16& a, const Sums16& b) {
  return {_mm256_add_epi32(a.rows0, b.rows0), _mm256_add_epi32(a.rows8, b.rows8)};
}
static inline Sums16 minus(const Sums16& a, int32_t b) {
  return {_mm256_sub_epi32(a.rows0, _mm256_set1_epi32(b)), _mm256_sub_epi32(a.rows8, _mm256_set1_epi32(b))};
}
static inline Sums16 dot(Sums16 sums, Codes16 codes, const int16_t* pair) {
  const __m256i x = _mm256_set1_epi32(pair_bits(pair));
  sums.rows0 = _mm256_add_epi32(sums.rows0, _mm256_madd_epi16(codes.rows0, x));
  pin(sums.rows0);
  sums.rows8 = _mm256_add_epi32(sums.rows8, _mm256_madd_epi16(codes.rows8, x));
  pin(sums.rows8);
  return sums;
}

#endif

// Each plane is read as one stream, this many bytes ahead. Measured (Zen 3, 8 planes, one core): as fast as plain reading
// at 256 and 512; from 1024 on the lines fetched early push each other out where the planes lie a multiple of 4 KiB apart.
constexpr int kPrefetchBytes = 512;

template <int B>
static inline void prefetch_lines(const uint8_t* const* lines, int offset) {
  for (int p = 0; p < B; ++p)
    _mm_prefetch(reinterpret_cast<const char*>(lines[p] + offset + kPrefetchBytes), _MM_HINT_T0);
}

// One step of the 8 x 8 bit transpose: exchanges the high fields of `low` with the low fields of `high`.
template <int kShift>
static inline void exchange(__m256i& low, __m256i& high, __m256i mask) {
  const __m256i change = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi16(low, kShift), high), mask);
  high = _mm256_xor_si256(high, change);
  pin(high);
  low = _mm256_xor_si256(low, _mm256_slli_epi16(change, kShift));
  pin(low);
}

// The same where `high` is 0.
template <int kShift>
static inline void split(__m256i& low, __m256i& high, __m256i mask) {
  high = _mm256_and_si256(_mm256_srli_epi16(low, kShift), mask);
  low = _mm256_and_si256(low, mask);
}

// Registers i and i + kShift; those from kLive on are 0.
template <int kShift, int kLive>
static inline void step(__m256i (&r)[8], int i, __m256i mask) {
  if (i + kShift < kLive)
    exchange<kShift>(r[i], r[i + kShift], mask);
  else if (i < kLive)
    split<kShift>(r[i], r[i + kShift], mask);
}

// The first two of the three stages that take bit c of r[i] to bit i of r[c]; registers from B on are 0.
template <int B>
static inline void transpose_to_fours(__m256i (&r)[8]) {
  constexpr int kLive2 = (B + 1) / 2 * 2;
  const __m256i mask1 = _mm256_set1_epi8(0x55), mask2 = _mm256_set1_epi8(0x33);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) step<1, B>(r, i, mask1);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) step<2, kLive2>(r, i + (i & 2), mask2);
}

template <int B>
using CodeTable = ByteTable<B>;

// Looks up two vectors of codes.
template <typename Look>
static inline void look_up(const Look& look, __m256i& a, __m256i& b) {
  if constexpr (Look::kTable) {
#if defined(EB_AVX512)
    const __m512i both = look(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
    a = _mm512_castsi512_si256(both);
    b = _mm512_extracti64x4_epi64(both, 1);
#else
    a = look(a);
    b = look(b);
#endif
  }
}

template <int B, typename Look, typename Sink>
static inline void expand_half(const uint8_t* const* lines, int offset, const Look& look, Sink sink) {
  constexpr int kLive4 = (B + 3) / 4 * 4;
  const __m256i mask4 = _mm256_set1_epi8(0x0f);
  const __m256i none = _mm256_setzero_si256();
  __m256i r[8];
#pragma GCC unroll 8
  for (int p = 0; p < B; ++p) r[B - 1 - p] = load_bytes(lines[p] + offset);
  transpose_to_fours<B>(r);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    step<4, kLive4>(r, i, mask4);
    look_up(look, r[i], r[i + 4]);
#pragma GCC unroll 2
    for (int j = i; j < 8; j += 4) sink(j, join(_mm256_unpacklo_epi8(r[j], none), _mm256_unpackhi_epi8(r[j], none)));
  }
}

// Pairs of columns of two rows, one in each half.
static inline __m256i load_rows(const uint8_t* codes, int64_t stride, int row) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + row * stride));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + (row + 4) * stride));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// One (strip, group, half): 16 rows of 16 codes, `stride` apart, into 32 bytes of every plane at out[p] + at.
static inline void pack_half(const uint8_t* codes, int64_t stride, int planes, uint8_t* const* out, int64_t at) {
  __m256i a[8], b[8];
  // Rows 0-3 and 8-11 go to the low half, 4-7 and 12-15 to the high half; then a transpose of 8 x 8 pairs.
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) a[i] = load_rows(codes, stride, i + (i & 4));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
    a[2 * i + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
  }
  transpose_to_fours<8>(b);
  const __m256i mask4 = _mm256_set1_epi8(0x0f);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) step<4, 8>(b, i, mask4);
  for (int p = 0; p < planes; ++p)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out[p] + at), b[planes - 1 - p]);
}

}  // namespace EB_ISA
}  // namespace eb
