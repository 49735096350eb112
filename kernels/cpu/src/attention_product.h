// C[rows, n] (+)= A[rows, depth] * B[depth, n]: the product behind both q*k (B = K, n = keys) and p*v (B = V, n = d).
//
// Every element is one chain of multiply-adds over `depth` in increasing order, whatever the blocking: its bits do
// not depend on rows, n or neighbours. B is f32 or bf16 (widened on the way). n is a multiple of 8.
#pragma once

#include <cstddef>

#include "attention_vec.h"

namespace eb {
namespace {

struct Strides {
  ptrdiff_t a, b, c;
};

// One register block: R rows x N vectors, the chains run side by side.
template <typename V, int R, int N, typename T>
void product_block(const float* a, const T* b, float* c, Strides stride, int depth, bool fresh) {
  V sum[R][N];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) sum[i][j] = fresh ? V::splat(0.0f) : V::load(c + i * stride.c + j * V::kWidth);
  for (int p = 0; p < depth; ++p, b += stride.b) {
    V column[N];
    for (int j = 0; j < N; ++j) column[j] = V::load(b + j * V::kWidth);
    for (int i = 0; i < R; ++i) {
      const V factor = V::splat(a[i * stride.a + p]);
      for (int j = 0; j < N; ++j) sum[i][j] = fma(factor, column[j], sum[i][j]);
    }
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) sum[i][j].store(c + i * stride.c + j * V::kWidth);
}

template <typename T>
using ProductBlock = void (*)(const float*, const T*, float*, Strides, int, bool);

constexpr int kBlockRows = 4;
constexpr int kBlockVectors = 8;
// Vectors per block by rows per block: enough chains to hide the latency of a multiply-add, within 16 registers.
constexpr int kVectorsFor[kBlockRows + 1] = {0, 8, 4, 3, 3};

template <typename V, typename T>
ProductBlock<T> product_block_for(int rows, int vectors) {
#define EB_ROW(R) \
  { nullptr, product_block<V, R, 1, T>, product_block<V, R, 2, T>, product_block<V, R, 3, T> }
  static constexpr ProductBlock<T> table[kBlockRows + 1][kBlockVectors + 1] = {
      {},
      {nullptr, product_block<V, 1, 1, T>, product_block<V, 1, 2, T>, product_block<V, 1, 3, T>,
       product_block<V, 1, 4, T>, product_block<V, 1, 5, T>, product_block<V, 1, 6, T>, product_block<V, 1, 7, T>,
       product_block<V, 1, 8, T>},
      {nullptr, product_block<V, 2, 1, T>, product_block<V, 2, 2, T>, product_block<V, 2, 3, T>,
       product_block<V, 2, 4, T>},
      EB_ROW(3),
      EB_ROW(4),
  };
#undef EB_ROW
  return table[rows][vectors];
}

inline int ceil_div(int value, int step) { return (value + step - 1) / step; }

// The n / width whole vectors of one width; columns outside, rows inside, so that a strip of B stays in L1.
template <typename V, typename T>
void product_strips(const float* a, const T* b, float* c, Strides stride, int rows, int vectors, int depth,
                    bool fresh) {
  const int wide = kVectorsFor[rows < kBlockRows ? rows : kBlockRows];
  for (int done = 0, step; done < vectors; done += step) {
    step = ceil_div(vectors - done, ceil_div(vectors - done, wide));
    for (int row = 0, block; row < rows; row += block) {
      block = ceil_div(rows - row, ceil_div(rows - row, kBlockRows));
      const ptrdiff_t column = static_cast<ptrdiff_t>(done) * V::kWidth;
      product_block_for<V, T>(block, step)(a + row * stride.a, b + column, c + row * stride.c + column, stride, depth,
                                           fresh);
    }
  }
}

template <typename T>
void product(const float* a, const T* b, float* c, Strides stride, int rows, int n, int depth, bool fresh) {
  const int vectors = n / Wide::kWidth;
  product_strips<Wide>(a, b, c, stride, rows, vectors, depth, fresh);
  const int done = vectors * Wide::kWidth;
  if (done < n) product_strips<Vec8>(a, b + done, c + done, stride, rows, (n - done) / 8, depth, fresh);
}

}  // namespace
}  // namespace eb
