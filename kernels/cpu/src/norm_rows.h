// RMS norm of one row and dot products of rows, once per instruction set.
//
// A sum over D columns has kChains vectors of partial sums: vector j of a row belongs to chain j % kChains, a last part
// of a vector is filled up with zeros. The chains are added in order, then the lanes. So the order depends on D only.
#pragma once

#include "norm.h"
#include "simd.h"

namespace eb {
namespace EB_ISA {

constexpr int kChains = 4;

static inline F32 add_chains(const F32* chain) { return (chain[0] + chain[1]) + (chain[2] + chain[3]); }

// Calls body(column, columns, chain) for every vector of a row; columns < F32::kLanes only in the last one.
template <typename Body>
static inline void for_each_vector(int64_t d, Body body) {
  constexpr int64_t kStep = static_cast<int64_t>(kChains) * F32::kLanes;
  int64_t i = 0;
  for (; i + kStep <= d; i += kStep)
    for (int c = 0; c < kChains; ++c) body(i + c * F32::kLanes, F32::kLanes, c);
  for (int c = 0; i < d; ++c, i += F32::kLanes) body(i, static_cast<int>(d - i < F32::kLanes ? d - i : F32::kLanes), c);
}

static inline F32 load_columns(const float* p, int columns) {
  return columns == F32::kLanes ? load(p) : load_part(p, columns);
}

static void rmsnorm_row(const float* x, const float* weight, int64_t d, float eps, float* out) {
  F32 chain[kChains] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  for_each_vector(d, [&](int64_t i, int columns, int c) {
    const F32 v = load_columns(x + i, columns);
    chain[c] = fma(v, v, chain[c]);
  });
  const float mean = sum(add_chains(chain)) / static_cast<float>(d);
  const F32 inverse = splat(1.0f / sqrtf(mean + eps));
  for_each_vector(d, [&](int64_t i, int columns, int) {
    const F32 y = load_columns(x + i, columns) * inverse * load_columns(weight + i, columns);
    if (columns == F32::kLanes)
      store(out + i, y);
    else
      store_part(out + i, y, columns);
  });
}

static float dot(const float* x, const float* w, int64_t d) {
  F32 chain[kChains] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  for_each_vector(d, [&](int64_t i, int columns, int c) {
    chain[c] = fma(load_columns(x + i, columns), load_columns(w + i, columns), chain[c]);
  });
  return sum(add_chains(chain));
}

constexpr NormKernels kNormKernels = {rmsnorm_row, dot};

}  // namespace EB_ISA
}  // namespace eb
