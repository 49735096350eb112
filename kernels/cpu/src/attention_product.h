// C[rows, n] (+)= A[rows, depth] * B[depth, n]: the product behind both q*k (B = K, n = keys) and p*v (B = V, n = d).
//
// Every element is one chain of multiply-adds over `depth` in increasing order, whatever the blocking: its bits do
// not depend on rows, n or neighbours. B is f32 or bf16 (widened on the way).
#pragma once

#include <cstddef>

#include "simd.h"

namespace eb {
namespace EB_ISA {

struct Strides {
  ptrdiff_t a, b, c;
};

static inline F32 load_wide(const float* p) { return load(p); }
static inline F32 load_wide(const uint16_t* p) { return load_bf16(p); }

static inline int ceil_div(int value, int step) { return (value + step - 1) / step; }
static inline int smaller(int a, int b) { return a < b ? a : b; }

// One register block: R rows x N vectors, the chains run side by side.
template <int R, int N, typename T>
static void product_block(const float* a, const T* b, float* c, Strides stride, int depth, bool fresh) {
  F32 sum[R][N];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) sum[i][j] = fresh ? splat(0.0f) : load(c + i * stride.c + j * F32::kLanes);
  for (int p = 0; p < depth; ++p, b += stride.b) {
    F32 column[N];
    for (int j = 0; j < N; ++j) column[j] = load_wide(b + j * F32::kLanes);
    for (int i = 0; i < R; ++i) {
      const F32 factor = splat(a[i * stride.a + p]);
      for (int j = 0; j < N; ++j) sum[i][j] = fma(factor, column[j], sum[i][j]);
    }
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) store(c + i * stride.c + j * F32::kLanes, sum[i][j]);
}

constexpr int kBlockRows = 4;
constexpr int kBlockVectors = 8;
// Vectors per block by rows per block: enough chains to hide the latency of a multiply-add, within 16 registers.
constexpr int kVectorsFor[kBlockRows + 1] = {0, 8, 4, 3, 3};

template <typename T>
using ProductBlock = void (*)(const float*, const T*, float*, Strides, int, bool);

template <typename T>
static ProductBlock<T> product_block_for(int rows, int vectors) {
  static constexpr ProductBlock<T> table[kBlockRows + 1][kBlockVectors + 1] = {
      {},
      {nullptr, product_block<1, 1, T>, product_block<1, 2, T>, product_block<1, 3, T>, product_block<1, 4, T>,
       product_block<1, 5, T>, product_block<1, 6, T>, product_block<1, 7, T>, product_block<1, 8, T>},
      {nullptr, product_block<2, 1, T>, product_block<2, 2, T>, product_block<2, 3, T>, product_block<2, 4, T>},
      {nullptr, product_block<3, 1, T>, product_block<3, 2, T>, product_block<3, 3, T>},
      {nullptr, product_block<4, 1, T>, product_block<4, 2, T>, product_block<4, 3, T>},
  };
  return table[rows][vectors];
}

// n = vectors * F32::kLanes. Columns outside, rows inside, so that a strip of B stays in L1.
template <typename T>
static void product(const float* a, const T* b, float* c, Strides stride, int rows, int vectors, int depth,
                    bool fresh) {
  const int wide = kVectorsFor[smaller(rows, kBlockRows)];
  for (int done = 0, step; done < vectors; done += step) {
    step = ceil_div(vectors - done, ceil_div(vectors - done, wide));
    const ptrdiff_t column = static_cast<ptrdiff_t>(done) * F32::kLanes;
    for (int row = 0, block; row < rows; row += block) {
      block = ceil_div(rows - row, ceil_div(rows - row, kBlockRows));
      product_block_for<T>(block, step)(a + row * stride.a, b + column, c + row * stride.c + column, stride, depth,
                                        fresh);
    }
  }
}

}  // namespace EB_ISA
}  // namespace eb
