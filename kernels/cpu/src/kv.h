// KV pages of one sequence and layer, as every kernel sees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eb {

// Where KV pages lie and how one is laid out: K u16[heads][head_dim][tokens], then V u16[heads][tokens][head_dim],
// both bf16. Filled in by the caller of the library; the field order is part of the C interface.
struct KvMemory {
  const uint64_t* slab_bases;
  int64_t slabs;
  int64_t pages_per_slab;
  int64_t page_bytes;
  int32_t heads;
  int32_t head_dim;
  int32_t tokens;
};

// One sequence: position p lies at place p % tokens of page table[p / tokens].
struct KvPages {
  KvMemory memory;
  const int32_t* table;
  int64_t table_size;
};

static inline bool kv_shape_ok(const KvMemory& memory) {
  const int64_t values = 2 * static_cast<int64_t>(memory.heads) * memory.head_dim * memory.tokens;
  return memory.heads > 0 && memory.head_dim > 0 && memory.head_dim % 16 == 0 && memory.tokens > 0 &&
         memory.tokens % 8 == 0 && memory.pages_per_slab > 0 && values * 2 <= memory.page_bytes;
}

static inline bool kv_has_page(const KvPages& kv, int64_t run) {
  return run >= 0 && run < kv.table_size && kv.table[run] >= 0 &&
         kv.table[run] < kv.memory.slabs * kv.memory.pages_per_slab;
}

static inline uint16_t* kv_page(const KvPages& kv, int64_t run) {
  const int64_t id = kv.table[run], per_slab = kv.memory.pages_per_slab;
  return reinterpret_cast<uint16_t*>(kv.memory.slab_bases[id / per_slab] +
                                     static_cast<uint64_t>(id % per_slab * kv.memory.page_bytes));
}

// K of `head` from `place` on: head_dim rows with stride `tokens`.
static inline uint16_t* kv_key(const KvPages& kv, int64_t run, int head, int place) {
  return kv_page(kv, run) + static_cast<size_t>(head) * kv.memory.head_dim * kv.memory.tokens + place;
}

// V of `head` from `place` on: rows of tokens with stride `head_dim`.
static inline uint16_t* kv_value(const KvPages& kv, int64_t run, int head, int place) {
  const KvMemory& m = kv.memory;
  const size_t row = static_cast<size_t>(m.heads + head) * m.tokens;  // the K part is as large as heads * tokens rows
  return kv_page(kv, run) + (row + place) * m.head_dim;
}

}  // namespace eb
