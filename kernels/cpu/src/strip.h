// The strip kernels, one source: products of 16 rows of W with rows of x, from planes and from expanded codes.
//
// An instruction set supplies, in its own header (strip_x86.h, strip_portable.h):
//     Codes16           16 rows x 2 columns of int16;  load_codes(const int16_t*)
//     Sums16            16 rows of int32;  splat_sums(int32), to_f32(Sums16, vector index)
//     dot(Sums16, Codes16, const int16_t* pair)
//     expand_half<B>(const uint8_t* const* lines, offset, look, sink)   sink(i, Codes16) for the 8 column pairs of a half
//                       line, whose codes went through `look` (look_up.h)
//     CodeTable<B>      such a look-up
//     pack_half         see LinearKernels
#pragma once

#include "elementwise.h"

#if defined(__AVX2__)
#include "strip_x86.h"
#else
#include "strip_portable.h"
#endif
#if defined(EB_BYTE_PRODUCTS)
#include "byte_sums.h"
#endif

namespace eb {
namespace EB_ISA {

constexpr int kPairs = kGroupCols / 2;
constexpr int kPairCodes = 2 * kStripRows;  // int16 values of one column pair
constexpr int kGroupCodes = kPairs * kPairCodes;

// One scale group's exact sums into the f32 accumulators of 16 rows.
template <Form kForm, bool kFull>
static inline void add_group(const CodeBook& book, const Sums16& sums, const ActGroup& act, int32_t sum, const float* s,
                             const float* m, float* acc) {
  for (int i = 0; i < kStripRows / F32::kLanes; ++i) {
    F32 f = to_f32(sums, i);
    if (!kFull) f = fma(f, splat(book.step), splat(-book.offset * static_cast<float>(sum)));
    F32 total = fma(f, splat(act.scale) * load(s + i * F32::kLanes), load(acc + i * F32::kLanes));
    if (kForm == Form::minimum) total = fma(splat(act.scaled_sum), load(m + i * F32::kLanes), total);
    store(acc + i * F32::kLanes, total);
  }
}

static inline int32_t part_sum(const ActGroup& act, int part) { return part == 0 ? act.sum_low : act.sum - act.sum_low; }

#if defined(EB_BYTE_PRODUCTS)

template <Form kForm, bool kFull, int B, typename Look = AsIs>
static void gemv(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* out) {
  alignas(64) float acc[kStripRows];
  std::memcpy(acc, out, sizeof acc);
  const Look look(book.table);
  const auto without_zero = [&](const Sums16& sums, int32_t sum) {
    return kFull && !Look::kTable ? minus(sums, book.zero * sum) : sums;
  };
  for (int g = 0; g < part.groups; ++g, ++act) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    const HalfSums sums = byte_sums<B>(part.lines, g * kLineBytes, act->q, look);
    if (kForm == Form::halves) {
      const float* s = scales.s + 2 * g * kStripRows;
      const int32_t low = part_sum(*act, 0), high = part_sum(*act, 1);
      add_group<kForm, kFull>(book, without_zero(sums.first, low), *act, low, s, nullptr, acc);
      add_group<kForm, kFull>(book, without_zero(sums.second, high), *act, high, s + kStripRows, nullptr, acc);
    } else {
      add_group<kForm, kFull>(book, without_zero(plus(sums.first, sums.second), act->sum), *act, act->sum,
                              scales.s + g * kStripRows, scales.m + g * kStripRows, acc);
    }
  }
  std::memcpy(out, acc, sizeof acc);
}

#else

template <Form kForm, bool kFull, int B, typename Look = AsIs>
static void gemv(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* out) {
  alignas(64) float acc[kStripRows];
  std::memcpy(acc, out, sizeof acc);
  const Look look(book.table);
  for (int g = 0; g < part.groups; ++g, ++act) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    Sums16 sums = splat_sums(kFull && kForm != Form::halves ? -book.zero * act->sum : 0);
    for (int h = 0; h < 2; ++h) {
      if (kForm == Form::halves) sums = splat_sums(kFull ? -book.zero * part_sum(*act, h) : 0);
      expand_half<B>(part.lines, g * kLineBytes + h * kLineBytes / 2, look,
                     [&](int i, const Codes16& codes) { sums = dot(sums, codes, act->q + 16 * h + 2 * i); });
      if (kForm == Form::halves)
        add_group<kForm, kFull>(book, sums, *act, part_sum(*act, h), scales.s + (2 * g + h) * kStripRows, nullptr, acc);
    }
    if (kForm != Form::halves)
      add_group<kForm, kFull>(book, sums, *act, act->sum, scales.s + g * kStripRows, scales.m + g * kStripRows, acc);
  }
  std::memcpy(out, acc, sizeof acc);
}

#endif

template <int B, typename Look = AsIs>
static void expand(const CodeBook& book, const Segment& part, int16_t* out) {
  const Look look(book.table);
  const Codes16 zero = splat_codes(static_cast<int16_t>(book.full ? book.zero : 0));
  for (int g = 0; g < part.groups; ++g, out += kGroupCodes) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    for (int h = 0; h < 2; ++h)
      expand_half<B>(part.lines, g * kLineBytes + h * kLineBytes / 2, look, [&](int i, const Codes16& codes) {
        store_codes(out + (8 * h + i) * kPairCodes, subtract(codes, zero));
      });
  }
}

template <Form kForm, bool kFull, int kRows>
static void tile(const CodeBook& book, const int16_t* codes, int groups, const ActGroup* const* rows, Scales scales,
                 float* acc) {
  constexpr int kParts = kForm == Form::halves ? 2 : 1;
  constexpr int kPartPairs = kPairs / kParts;
  const ActGroup* act[kRows];
  for (int t = 0; t < kRows; ++t) act[t] = rows[t];
  for (int g = 0; g < groups; ++g) {
    for (int part = 0; part < kParts; ++part) {
      Sums16 sums[kRows];
      for (int t = 0; t < kRows; ++t) sums[t] = splat_sums(0);
#pragma GCC unroll 2
      for (int i = 0; i < kPartPairs; ++i, codes += kPairCodes) {
        const Codes16 w = load_codes(codes);
        for (int t = 0; t < kRows; ++t) sums[t] = dot(sums[t], w, act[t][g].q + 2 * (part * kPartPairs + i));
      }
      const float* s = scales.s + (g * kParts + part) * kStripRows;
      for (int t = 0; t < kRows; ++t)
        add_group<kForm, kFull>(book, sums[t], act[t][g], kParts == 2 ? part_sum(act[t][g], part) : act[t][g].sum, s,
                                scales.m + g * kStripRows, acc + t * kStripRows);
    }
  }
}

template <int B>
static void gemv_table(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* out) {
  gemv<Form::plain, true, B, CodeTable<B>>(book, part, act, scales, out);
}

template <int B>
static void expand_table(const CodeBook& book, const Segment& part, int16_t* out) {
  expand<B, CodeTable<B>>(book, part, out);
}

// The lists of instances, and the functions of LinearKernels that look them up.

using Gemv = void (*)(const CodeBook&, const Segment&, const ActGroup*, Scales, float*);
using Expand = void (*)(const CodeBook&, const Segment&, int16_t*);
using Tile = void (*)(const CodeBook&, const int16_t*, int, const ActGroup* const*, Scales, float*);

#define EB_BITS(f, ...) \
  { f<__VA_ARGS__ 1>, f<__VA_ARGS__ 2>, f<__VA_ARGS__ 3>, f<__VA_ARGS__ 4>, f<__VA_ARGS__ 5>, f<__VA_ARGS__ 6>, f<__VA_ARGS__ 7>, f<__VA_ARGS__ 8> }
#define EB_ROWS(f, ...) \
  { f<__VA_ARGS__ 1>, f<__VA_ARGS__ 2>, f<__VA_ARGS__ 3>, f<__VA_ARGS__ 4>, f<__VA_ARGS__ 5>, f<__VA_ARGS__ 6> }
#define EB_COMMA ,
#define EB_FORMS(list, f)                                                                            \
  {                                                                                                  \
    {list(f, Form::plain EB_COMMA false EB_COMMA), list(f, Form::plain EB_COMMA true EB_COMMA)},     \
        {list(f, Form::minimum EB_COMMA false EB_COMMA), list(f, Form::minimum EB_COMMA true EB_COMMA)}, \
        {list(f, Form::halves EB_COMMA false EB_COMMA), list(f, Form::halves EB_COMMA true EB_COMMA)}, \
  }

static constexpr Gemv kGemv[3][2][8] = EB_FORMS(EB_BITS, gemv);
static constexpr Tile kTile[3][2][kTileRows] = EB_FORMS(EB_ROWS, tile);
static constexpr Expand kExpand[8] = EB_BITS(expand, );
static constexpr Gemv kGemvTable[8] = EB_BITS(gemv_table, );
static constexpr Expand kExpandTable[8] = EB_BITS(expand_table, );

static void any_gemv(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* acc) {
  const Gemv of_codes = kGemv[static_cast<int>(book.form)][book.full][book.bits - 1];
  (book.table == nullptr ? of_codes : kGemvTable[book.bits - 1])(book, part, act, scales, acc);
}

static void any_expand(const CodeBook& book, const Segment& part, int16_t* out) {
  (book.table == nullptr ? kExpand : kExpandTable)[book.bits - 1](book, part, out);
}

static void any_tile(const CodeBook& book, const int16_t* codes, int groups, const ActGroup* const* rows, int count,
                     Scales scales, float* acc) {
  kTile[static_cast<int>(book.form)][book.full][count - 1](book, codes, groups, rows, scales, acc);
}

constexpr LinearKernels kTable = {quantise, decode_scales, any_gemv, any_expand, any_tile, pack_half, glu, combine};

}  // namespace EB_ISA
}  // namespace eb
