// The operations that the library exports, in one place: the binding calls them one by one or as a recorded program.
//
// Every operation returns a Status. Units, shapes and meanings are those of kernels/ops.py.
#pragma once

#include "block.h"
#include "context.h"

namespace eb {
struct KvMemory;
}

EB_API int eb_linear(eb::Context* context, const eb::Block* block, const float* x, int64_t x_stride, int32_t rows,
                     float* out, int64_t out_stride, int32_t index, const float* bias, int32_t accumulate);
EB_API int eb_moe(eb::Context* context, const eb::Block* gate_up, const eb::Block* down, const float* x,
                  const int32_t* idx, const uint8_t* chosen, float* out, int32_t rows, int32_t top_k,
                  int32_t activation);
EB_API int eb_embed(eb::Context* context, const eb::Block* block, const int32_t* ids, int32_t count, float* out);
EB_API int eb_glu(eb::Context* context, const float* gate_up, float* out, int32_t rows, int32_t cols,
                  int32_t activation);
EB_API int eb_combine(eb::Context* context, const float* pair, const float* weights, float* out, int32_t rows,
                      int32_t top_k, int32_t cols);
EB_API int eb_rmsnorm(eb::Context* context, const float* x, const float* weight, float eps, float* out, int64_t rows,
                      int64_t d);
EB_API int eb_rope(eb::Context* context, float* x, int64_t row_stride, int32_t rows, int32_t heads, int32_t head_dim,
                   const float* cos, const float* sin, int64_t table_rows, int32_t pairs, const int32_t* positions,
                   int32_t interleaved);
EB_API int eb_kv_write(eb::Context* context, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                       const int32_t* positions, int32_t rows, const eb::KvMemory* memory, const int32_t* table,
                       int64_t table_size);
EB_API int eb_attention(eb::Context* context, const float* q, int64_t q_stride, const int32_t* positions, int32_t rows,
                        int32_t heads, float scale, const eb::KvMemory* memory, const int32_t* table,
                        int64_t table_size, float* out);
EB_API int eb_router(eb::Context* context, const float* x, const float* w, int32_t rows, int32_t experts, int64_t d,
                     int32_t top_k, int32_t normalise, int32_t* idx, float* weights);
