// Quantisation of activations, scales, and the element-wise operations: one source for every instruction set.
#pragma once

#include "linear_kernels.h"
#include "vmath.h"

namespace eb {
namespace EB_ISA {

static inline void quantise_group(const float* x, ActGroup* out) {
  constexpr int kParts = kGroupCols / F32::kLanes;
  F32 part[kParts];
  for (int i = 0; i < kParts; ++i) part[i] = load(x + i * F32::kLanes);
  F32 peak = abs(part[0]);
  for (int i = 1; i < kParts; ++i) peak = max(peak, abs(part[i]));
  const float amax = largest(peak);
  constexpr float kMost = kMostActivation;
  const F32 inverse = splat(amax == 0.0f ? 0.0f : kMost / amax);
  int32_t sums[kParts];
  for (int i = 0; i < kParts; ++i)
    sums[i] = store_whole(out->q + i * F32::kLanes,
                          round_even(min(max(part[i] * inverse, splat(-kMost)), splat(kMost))));
  int32_t low = 0, all = 0;
  for (int i = 0; i < kParts; ++i) {
    if (2 * i < kParts) low += sums[i];
    all += sums[i];
  }
  out->scale = amax / kMost;
  out->sum_low = low;
  out->sum = all;
  out->scaled_sum = static_cast<float>(out->sum) * out->scale;
}

static void quantise(const float* x, int cols, ActGroup* out) {
  for (int g = 0; g < cols / kGroupCols; ++g) quantise_group(x + g * kGroupCols, out + g);
}

static inline void copy_halves(const uint8_t* from, float* to) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
  for (int i = 0; i < kStripRows; i += F32::kLanes) store(to + i, load_f16(halves + i));
}

// 256 columns: d, dmin, then 24 bytes per group.
static inline void decode_k6(const uint8_t* meta, float* s, float* m) {
  float d[kStripRows], dmin[kStripRows];
  copy_halves(meta, d);
  copy_halves(meta + 32, dmin);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* group = meta + 64 + 24 * g;
    for (int r = 0; r < kStripRows; r += F32::kLanes) {
      store(s + g * kStripRows + r, load(d + r) * load_six_bits(group, group + 8, r));
      store(m + g * kStripRows + r, splat(-1.0f) * (load(dmin + r) * load_six_bits(group + 12, group + 20, r)));
    }
  }
}

// 256 columns: d, then 16 signed bytes per half group.
static inline void decode_k8(const uint8_t* meta, float* s) {
  float d[kStripRows];
  copy_halves(meta, d);
  const int8_t* scale = reinterpret_cast<const int8_t*>(meta + 32);
  for (int h = 0; h < 16; ++h)
    for (int r = 0; r < kStripRows; r += F32::kLanes)
      store(s + h * kStripRows + r, load(d + r) * load_i8(scale + h * kStripRows + r));
}

// 256 columns: d, then 12 bytes per group: six bits of a sub-scale plus 32.
static inline void decode_s6(const uint8_t* meta, float* s) {
  float d[kStripRows];
  copy_halves(meta, d);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* group = meta + 32 + 12 * g;
    for (int r = 0; r < kStripRows; r += F32::kLanes)
      store(s + g * kStripRows + r, load(d + r) * (load_six_bits(group, group + 8, r) - splat(32.0f)));
  }
}

// 2^(exponent - 131), put together from its bits; the least five are denormal.
static inline float power_of_two(uint8_t exponent) {
  const uint32_t bits = exponent < 5 ? 1u << (18 + exponent) : (exponent - 4u) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static void decode_scales(Scale scale, const uint8_t* meta, int groups, Scales out) {
  switch (scale) {
    case Scale::half:
      for (int g = 0; g < groups; ++g) copy_halves(meta + 32 * g, out.s + g * kStripRows);
      break;
    case Scale::half_min:
      for (int g = 0; g < groups; ++g) {
        copy_halves(meta + 64 * g, out.s + g * kStripRows);
        copy_halves(meta + 64 * g + 32, out.m + g * kStripRows);
      }
      break;
    case Scale::k6:
      for (int g = 0; g < groups; g += 8)
        decode_k6(meta + 32 * g, out.s + g * kStripRows, out.m + g * kStripRows);
      break;
    case Scale::e8:
      for (int i = 0; i < groups * kStripRows; ++i) out.s[i] = power_of_two(meta[i]);
      break;
    case Scale::s6:
      for (int g = 0; g < groups; g += 8) decode_s6(meta + 16 * g, out.s + g * kStripRows);
      break;
    case Scale::k8:
      for (int g = 0; g < groups; g += 8) decode_k8(meta + 36 * g, out.s + g * 2 * kStripRows);
      break;
  }
}

template <typename Function>
static inline void each_vector(int count, Function function) {
  for (int i = 0; i < count; i += F32::kLanes) function(i, count - i < F32::kLanes ? count - i : F32::kLanes);
}

static inline F32 load_some(const float* p, int n) { return n == F32::kLanes ? load(p) : load_part(p, n); }

static inline void store_some(float* p, F32 a, int n) {
  if (n == F32::kLanes)
    store(p, a);
  else
    store_part(p, a, n);
}

static void glu(int activation, const float* gate, const float* up, int count, float* out) {
  each_vector(count, [=](int i, int n) {
    const F32 g = load_some(gate + i, n);
    store_some(out + i, (activation == 0 ? silu(g) : gelu(g)) * load_some(up + i, n), n);
  });
}

static void combine(const float* pair, int64_t stride, const float* weights, int k, int count, float* out) {
  each_vector(count, [=](int i, int n) {
    F32 total = load_some(out + i, n);
    for (int j = 0; j < k; ++j) total = fma(splat(weights[j]), load_some(pair + j * stride + i, n), total);
    store_some(out + i, total, n);
  });
}

}  // namespace EB_ISA
}  // namespace eb
