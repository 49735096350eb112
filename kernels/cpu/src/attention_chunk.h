// The arithmetic of attention.h, once per instruction set (isa.h says how).
#pragma once

#include "attention.h"
#include "attention_exp.h"
#include "attention_product.h"

namespace eb {
namespace EB_ISA {

constexpr float kMinusInfinity = -HUGE_VALF;
// From so many pairs on, widening a tile once is cheaper than widening while multiplying.
constexpr int kWidenPairs = 9;

static void scale_queries(const AttentionCall& call, const AttentionBlock& block, float* q) {
  const int d = call.kv.memory.head_dim, group = group_of(call);
  const F32 scale = splat(call.scale);
  for (int row = 0; row < block.rows; ++row) {
    const float* source = call.q + (block.first + row) * call.q_stride + static_cast<ptrdiff_t>(block.kv_head) * group * d;
    for (int i = 0; i < group * d; i += F32::kLanes, q += F32::kLanes) store(q, load(source + i) * scale);
  }
}

// dst[rows][n] = src[rows][n] with row stride `stride`, bf16 to f32; n is a multiple of F32::kLanes.
static void widen(const uint16_t* src, ptrdiff_t stride, float* dst, int rows, int n) {
  for (int row = 0; row < rows; ++row, src += stride, dst += n)
    for (int i = 0; i < n; i += F32::kLanes) store(dst + i, load_bf16(src + i));
}

// Calls body(run, place, key, keys): a run of keys of one page and at most one tile, from `first` up to `end`.
template <typename Body>
static void for_each_run(int tokens, int first, int end, Body body) {
  for (int key = first, keys; key < end; key += keys) {
    const int place = key % tokens;
    keys = smaller(smaller(tokens - place, end - key), kTileKeys);
    body(key / tokens, place, key, keys);
  }
}

// K of the page that holds `key`, to be fetched ahead.
static Ahead keys_ahead(const AttentionCall& call, int kv_head, int key) {
  const KvMemory& m = call.kv.memory;
  const uint16_t* start = kv_key(call.kv, key / m.tokens, kv_head, 0);
  return {reinterpret_cast<const char*>(start), static_cast<ptrdiff_t>(m.head_dim) * m.tokens * 2};
}

// V of the page that holds `key`, from `key` on.
static Ahead values_ahead(const AttentionCall& call, int kv_head, int key) {
  const KvMemory& m = call.kv.memory;
  const int place = key % m.tokens;
  const uint16_t* start = kv_value(call.kv, key / m.tokens, kv_head, place);
  return {reinterpret_cast<const char*>(start), static_cast<ptrdiff_t>(m.head_dim) * (m.tokens - place) * 2};
}

static void chunk_scores(const AttentionCall& call, const AttentionBlock& block, int first, int end,
                  const AttentionScratch& scratch) {
  const int d = call.kv.memory.head_dim, pairs = pairs_of(call, block);
  for_each_run(call.kv.memory.tokens, first, end, [&](int run, int place, int key, int keys) {
    // Whole vectors. Lanes beyond the run still lie in the page (V follows K); their scores are overwritten by the
    // next run or masked by soften().
    const int vectors = ceil_div(keys, F32::kLanes), n = vectors * F32::kLanes;
    const uint16_t* k = kv_key(call.kv, run, block.kv_head, place);
    float* scores = scratch.scores + (key - first);
    const int next = key + keys;
    Ahead ahead = next < end ? keys_ahead(call, block.kv_head, next) : values_ahead(call, block.kv_head, first);
    if (pairs < kWidenPairs) {
      product(scratch.q, k, scores, {d, call.kv.memory.tokens, kScoreStride}, pairs, vectors, d, true, &ahead);
    } else {
      widen(k, call.kv.memory.tokens, scratch.tile, d, n);
      product<float>(scratch.q, scratch.tile, scores, {d, n, kScoreStride}, pairs, vectors, d, true, &ahead);
    }
  });
}

// scores[0 .. valid - 1] -> e^(score - best), in place; entries up to the next whole vector become 0.
static void soften(float* scores, int valid, float* best, float* total) {
  const int padded = ceil_div(valid, F32::kLanes) * F32::kLanes;
  for (int i = valid; i < padded; ++i) scores[i] = kMinusInfinity;
  F32 most = splat(kMinusInfinity);
  for (int i = 0; i < padded; i += F32::kLanes) most = max(load(scores + i), most);  // in this order a NaN is passed over
  *best = largest(most);
  const F32 shift = splat(*best);
  F32 running = splat(0.0f);
  for (int i = 0; i < padded; i += F32::kLanes) {
    const F32 e = exp_nonpositive(load(scores + i) - shift);
    store(scores + i, e);
    running = running + e;
  }
  *total = sum(running);
}

// Keys of a run of `keys` keys from `key` that row `row` may see.
static inline int visible(const AttentionCall& call, int row, int key, int keys) {
  const int seen = limit_of(call, row) - key;
  return seen < 0 ? 0 : smaller(seen, keys);
}

// sum (+)= e * V over one run: rows that see equally many of its keys go together, and no row touches a key beyond its own.
static void run_values(const AttentionCall& call, const AttentionBlock& block, const float* e, int key, int keys, const uint16_t* v,
                const float* tile, float* sum, bool fresh, Ahead ahead) {
  const int d = call.kv.memory.head_dim, group = group_of(call);
  const Strides stride{kScoreStride, d, d};
  for (int row = 0, next; row < block.rows; row = next) {
    const int depth = visible(call, block.first + row, key, keys);
    for (next = row + 1; next < block.rows && visible(call, block.first + next, key, keys) == depth;) ++next;
    if (depth == 0) continue;
    const ptrdiff_t pair = static_cast<ptrdiff_t>(row) * group;
    const int pairs = (next - row) * group;
    if (tile == nullptr)
      product(e + pair * kScoreStride, v, sum + pair * d, stride, pairs, d / F32::kLanes, depth, fresh, &ahead);
    else
      product(e + pair * kScoreStride, tile, sum + pair * d, stride, pairs, d / F32::kLanes, depth, fresh, &ahead);
  }
}

static void chunk_values(const AttentionCall& call, const AttentionBlock& block, int first, int end,
                  const AttentionScratch& scratch, float* sum) {
  const int d = call.kv.memory.head_dim;
  const bool wide = pairs_of(call, block) >= kWidenPairs;
  for_each_run(call.kv.memory.tokens, first, end, [&](int run, int place, int key, int keys) {
    const uint16_t* v = kv_value(call.kv, run, block.kv_head, place);
    if (wide) widen(v, d, scratch.tile, keys, d);
    const int next = key + keys;
    Ahead ahead{reinterpret_cast<const char*>(v), 0};
    if (next < end)
      ahead = values_ahead(call, block.kv_head, next);
    else if (next < block.limit)
      ahead = keys_ahead(call, block.kv_head, next);
    run_values(call, block, scratch.scores + (key - first), key, keys, v, wide ? scratch.tile : nullptr, sum,
               key == first, ahead);
  });
}

static void attend_chunk(const AttentionCall& call, const AttentionBlock& block, int chunk, const AttentionScratch& scratch,
                  AttentionPartial out) {
  const int first = chunk * kChunk, end = smaller(first + kChunk, block.limit), group = group_of(call);
  chunk_scores(call, block, first, end, scratch);
  for (int pair = 0; pair < pairs_of(call, block); ++pair) {
    const int valid = visible(call, block.first + pair / group, first, end - first);
    out.best[pair] = kMinusInfinity;
    out.total[pair] = 0.0f;
    if (valid > 0) soften(scratch.scores + static_cast<ptrdiff_t>(pair) * kScoreStride, valid, out.best + pair, out.total + pair);
  }
  chunk_values(call, block, first, end, scratch, out.sum);
}

static void fold_pair(float* best, float* total, float* sum, float later_best, float later_total, const float* later_sum, int d) {
  const float most = later_best > *best ? later_best : *best;
  const float keep = exp_nonpositive_scalar(*best - most), add = exp_nonpositive_scalar(later_best - most);
  *best = most;
  *total = *total * keep + later_total * add;
  const F32 wide_keep = splat(keep), wide_add = splat(add);
  for (int i = 0; i < d; i += F32::kLanes)
    store(sum + i, fma(load(sum + i), wide_keep, load(later_sum + i) * wide_add));
}

static void fold_partial(AttentionPartial into, AttentionPartial from, int pairs, int head_dim) {
  for (int pair = 0; pair < pairs; ++pair) {
    float* sum = into.sum + static_cast<ptrdiff_t>(pair) * head_dim;
    const float* later = from.sum + static_cast<ptrdiff_t>(pair) * head_dim;
    if (from.total[pair] == 0.0f) continue;
    if (into.total[pair] == 0.0f) {
      into.best[pair] = from.best[pair];
      into.total[pair] = from.total[pair];
      std::memcpy(sum, later, sizeof(float) * head_dim);
    } else {
      fold_pair(into.best + pair, into.total + pair, sum, from.best[pair], from.total[pair], later, head_dim);
    }
  }
}

static void finish_block(const AttentionCall& call, const AttentionBlock& block, AttentionPartial state) {
  const int d = call.kv.memory.head_dim, group = group_of(call);
  for (int pair = 0; pair < pairs_of(call, block); ++pair) {
    const int row = block.first + pair / group, head = block.kv_head * group + pair % group;
    float* out = call.out + (static_cast<ptrdiff_t>(row) * call.heads + head) * d;
    const float* sum = state.sum + static_cast<ptrdiff_t>(pair) * d;
    const F32 inverse = splat(1.0f / state.total[pair]);
    for (int i = 0; i < d; i += F32::kLanes) store(out + i, load(sum + i) * inverse);
  }
}

constexpr AttentionKernels kAttentionKernels = {scale_queries, attend_chunk, fold_partial, finish_block};

}  // namespace EB_ISA
}  // namespace eb
