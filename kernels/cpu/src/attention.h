// Causal attention over paged K and V: what one call is, how it is cut, and what an instruction set supplies.
//
// The context is cut into chunks of kChunk keys at absolute positions. Within a chunk a row gets its scores (one
// chain over d per key), their exact maximum, e^(score - maximum), the sum of these in a fixed order, and their
// product with V (one chain over positions per value). Chunks are then folded in order. So a row's bits depend on
// its own position and the K and V it may see, not on the other rows, the page size, or which thread does what.
#pragma once

#include "kv.h"

namespace eb {

constexpr int kChunk = 256;
// A row of scores has room for one vector that starts inside the chunk.
constexpr int kScoreStride = kChunk + 16;
// Keys widened to f32 at a time: a tile of 64 keys x 64 or 128 values stays in L1 or nearly so.
constexpr int kTileKeys = 64;
// (row, query head) pairs that share a widened tile.
constexpr int kBlockPairs = 48;
constexpr int kMaxBlockRows = 32;

struct AttentionCall {
  const float* q;  // row m, head h at q + m * q_stride + h * head_dim
  int64_t q_stride;
  const int32_t* positions;
  int32_t rows;
  int32_t heads;
  float scale;
  KvPages kv;
  float* out;  // [rows][heads * head_dim]
};

// Rows first .. first + rows - 1 with the query heads of one KV head; pair r = (row - first) * group + head in group.
struct AttentionBlock {
  int first;
  int rows;
  int kv_head;
  int limit;  // the largest limit of its rows
};

// Query heads per KV head.
static inline int group_of(const AttentionCall& call) { return call.heads / call.kv.memory.heads; }
// Keys that a row may see.
static inline int limit_of(const AttentionCall& call, int row) { return call.positions[row] + 1; }
static inline int pairs_of(const AttentionCall& call, const AttentionBlock& block) {
  return block.rows * group_of(call);
}
static inline int chunks_of(const AttentionBlock& block) { return (block.limit + kChunk - 1) / kChunk; }

// Softmax not yet divided, for each pair: sum [pair][head_dim] = sum of e^(score - best) v, total = sum of
// e^(score - best). total is 0 for a pair that has seen no key.
struct AttentionPartial {
  float* best;
  float* total;
  float* sum;
};

struct AttentionScratch {
  float* q;       // [pairs][head_dim], scaled
  float* scores;  // [pairs][kScoreStride]
  float* tile;    // [kTileKeys + 16][head_dim] or [head_dim][kTileKeys + 16]
  AttentionPartial chunk;
  AttentionPartial state;
};

struct AttentionKernels {
  void (*scale_queries)(const AttentionCall&, const AttentionBlock&, float* q);
  // The block's partial over chunk `chunk`, from scratch.q.
  void (*chunk)(const AttentionCall&, const AttentionBlock&, int chunk, const AttentionScratch&, AttentionPartial out);
  // into = into combined with the later chunk `from`.
  void (*fold)(AttentionPartial into, AttentionPartial from, int pairs, int head_dim);
  void (*finish)(const AttentionCall&, const AttentionBlock&, AttentionPartial state);
};

extern const AttentionKernels kAttentionPortable;
#if defined(__x86_64__) || defined(_M_X64)
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
#endif

}  // namespace eb
