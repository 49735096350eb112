// 16 rows x 2 columns per step in plain C++.
#pragma once

#include "bits.h"
#include "linear_kernels.h"
#include "look_up.h"

namespace eb {
namespace EB_ISA {

struct Codes16 {
  int16_t v[2 * kStripRows];
};
struct Sums16 {
  int32_t v[kStripRows];
};

static inline Codes16 load_codes(const int16_t* p) {
  Codes16 a;
  std::memcpy(a.v, p, sizeof a.v);
  return a;
}
static inline void store_codes(int16_t* p, const Codes16& a) { std::memcpy(p, a.v, sizeof a.v); }
static inline Codes16 splat_codes(int16_t value) {
  Codes16 a;
  for (auto& v : a.v) v = value;
  return a;
}
static inline Codes16 subtract(const Codes16& a, const Codes16& b) {
  Codes16 r;
  for (int i = 0; i < 2 * kStripRows; ++i) r.v[i] = static_cast<int16_t>(a.v[i] - b.v[i]);
  return r;
}
static inline Sums16 splat_sums(int32_t value) {
  Sums16 a;
  for (auto& v : a.v) v = value;
  return a;
}
static inline F32 to_f32(const Sums16& sums, int vector) {
  F32 r;
  for (int i = 0; i < F32::kLanes; ++i) r.v[i] = static_cast<float>(sums.v[vector * F32::kLanes + i]);
  return r;
}
static inline Sums16 dot(const Sums16& sums, const Codes16& codes, const int16_t* pair) {
  Sums16 r;
  for (int i = 0; i < kStripRows; ++i)
    r.v[i] = sums.v[i] + codes.v[2 * i] * int32_t{pair[0]} + codes.v[2 * i + 1] * int32_t{pair[1]};
  return r;
}

template <int B>
static inline void prefetch_lines(const uint8_t* const*, int) {}

template <int B>
using CodeTable = PlainTable;

template <int B, typename Look, typename Sink>
static inline void expand_half(const uint8_t* const* lines, int offset, const Look& look, Sink sink) {
  Codes16 pairs[8];
  for (int j = 0; j < 32; ++j) {
    uint64_t word = 0;
    for (int p = 0; p < B; ++p) word |= static_cast<uint64_t>(lines[p][offset + j]) << 8 * (B - 1 - p);
    word = transpose_bits(word);
    for (int i = 0; i < 8; ++i)
      pairs[i].v[2 * kRowOfPair[j / 2] + (j & 1)] = look(static_cast<uint8_t>(word >> 8 * i));
  }
  for (int i = 0; i < 8; ++i) sink(i, pairs[i]);
}

// One (strip, group, half): 16 rows of 16 codes into 32 bytes of every plane.
static void pack_half(const uint8_t* codes, int64_t stride, int planes, uint8_t* const* out, int64_t at) {
  for (int j = 0; j < kLineBytes / 2; ++j) {
    const uint8_t* from = codes + kRowOfPair[j / 2] * stride + (j & 1);
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(from[2 * i]) << 8 * i;
    word = transpose_bits(word);
    for (int p = 0; p < planes; ++p) out[p][at + j] = static_cast<uint8_t>(word >> 8 * (planes - 1 - p));
  }
}

}  // namespace EB_ISA
}  // namespace eb
