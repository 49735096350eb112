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

// Memory that will be needed next: fetched into the cache line by line while a product runs.
struct Ahead {
  const char* next;
  ptrdiff_t bytes;
};

constexpr ptrdiff_t kLineBytes = 64;

#if defined(__AVX2__)
static inline void prefetch(const char* p) { _mm_prefetch(p, _MM_HINT_T0); }
#elif defined(__GNUC__)
static inline void prefetch(const char* p) { __builtin_prefetch(p); }
#else
static inline void prefetch(const char*) {}
#endif

static inline F32 load_wide(const float* p) { return load(p); }
static inline F32 load_wide(const uint16_t* p) { return load_bf16(p); }

static inline int ceil_div(int value, int step) { return (value + step - 1) / step; }
static inline int smaller(int a, int b) { return a < b ? a : b; }

// Bytes to fetch ahead per step of a block: as many as a step takes of a bf16 B, in whole lines.
template <int N>
static constexpr ptrdiff_t ahead_per_step() {
  return (N * F32::kLanes * 2 + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// One register block: R rows x N vectors, the chains run side by side. `from` holds what the chains start with (row
// stride `from_stride`). Each step prefetches from `ahead` on, which moves by `ahead_step`.
template <int R, int N, typename T>
static void product_block(const float* a, const T* b, const float* from, ptrdiff_t from_stride, float* c, Strides stride,
                          int depth, const char* ahead, ptrdiff_t ahead_step) {
  F32 sum[R][N];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < N; ++j) sum[i][j] = load(from + i * from_stride + j * F32::kLanes);
  for (int p = 0; p < depth; ++p, b += stride.b, ahead += ahead_step) {
    for (ptrdiff_t line = 0; line < ahead_per_step<N>(); line += kLineBytes) prefetch(ahead + line);
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
struct ProductBlock {
  void (*run)(const float*, const T*, const float*, ptrdiff_t, float*, Strides, int, const char*, ptrdiff_t);
  ptrdiff_t ahead_per_step;
};

template <int R, int N, typename T>
static constexpr ProductBlock<T> make_block() {
  return {product_block<R, N, T>, ahead_per_step<N>()};
}

template <typename T>
static const ProductBlock<T>& product_block_for(int rows, int vectors) {
  static constexpr ProductBlock<T> table[kBlockRows + 1][kBlockVectors + 1] = {
      {},
      {{}, make_block<1, 1, T>(), make_block<1, 2, T>(), make_block<1, 3, T>(), make_block<1, 4, T>(),
       make_block<1, 5, T>(), make_block<1, 6, T>(), make_block<1, 7, T>(), make_block<1, 8, T>()},
      {{}, make_block<2, 1, T>(), make_block<2, 2, T>(), make_block<2, 3, T>(), make_block<2, 4, T>()},
      {{}, make_block<3, 1, T>(), make_block<3, 2, T>(), make_block<3, 3, T>()},
      {{}, make_block<4, 1, T>(), make_block<4, 2, T>(), make_block<4, 3, T>()},
  };
  return table[rows][vectors];
}

alignas(64) constexpr float kZeros[kBlockVectors * F32::kLanes] = {};

// n = vectors * F32::kLanes; `fresh` starts from 0 instead of C. Columns outside, rows inside, so that a strip of B
// stays in L1.
template <typename T>
static void product(const float* a, const T* b, float* c, Strides stride, int rows, int vectors, int depth, bool fresh,
                    Ahead* ahead) {
  const int wide = kVectorsFor[smaller(rows, kBlockRows)];
  for (int done = 0, step; done < vectors; done += step) {
    step = ceil_div(vectors - done, ceil_div(vectors - done, wide));
    const ptrdiff_t column = static_cast<ptrdiff_t>(done) * F32::kLanes;
    for (int row = 0, count; row < rows; row += count) {
      count = ceil_div(rows - row, ceil_div(rows - row, kBlockRows));
      const ProductBlock<T>& block = product_block_for<T>(count, step);
      float* target = c + row * stride.c + column;
      const ptrdiff_t ahead_step = ahead->bytes > 0 ? block.ahead_per_step : 0;
      block.run(a + row * stride.a, b + column, fresh ? kZeros : target, fresh ? 0 : stride.c, target, stride, depth,
                ahead->next, ahead_step);
      ahead->next += depth * ahead_step;
      ahead->bytes -= depth * ahead_step;
    }
  }
}

}  // namespace EB_ISA
}  // namespace eb
