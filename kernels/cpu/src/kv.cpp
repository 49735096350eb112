#include <algorithm>

#include "api.h"
#include "kv.h"

#include "context.h"
#include "simd.h"

namespace eb {
namespace {

struct KvWrite {
  const float* k;
  int64_t k_stride;
  const float* v;
  int64_t v_stride;
  const int32_t* positions;
  int32_t rows;
  KvPages kv;
};

// One head of `count` rows from `row` on, whose positions follow each other in one page.
void write_run(const KvWrite& call, int head, int row, int count) {
  const int d = call.kv.memory.head_dim, tokens = call.kv.memory.tokens;
  const int64_t page = call.positions[row] / tokens;
  const int place = call.positions[row] % tokens;
  const float* k = call.k + row * call.k_stride + static_cast<ptrdiff_t>(head) * d;
  const float* v = call.v + row * call.v_stride + static_cast<ptrdiff_t>(head) * d;
  uint16_t* key = kv_key(call.kv, page, head, place);
  uint16_t* value = kv_value(call.kv, page, head, place);
  // Column by column, so that what is written lies side by side.
  for (int i = 0; i < d; ++i, key += tokens)
    for (int r = 0; r < count; ++r) key[r] = EB_ISA::f32_to_bf16(k[r * call.k_stride + i]);
  for (int r = 0; r < count; ++r, v += call.v_stride, value += d)
    for (int i = 0; i < d; ++i) value[i] = EB_ISA::f32_to_bf16(v[i]);
}

// Where the run of rows that begins at `row` ends.
int run_end(const KvWrite& call, int row) {
  const int tokens = call.kv.memory.tokens, first = call.positions[row], room = tokens - first % tokens;
  int count = 1;
  while (count < room && row + count < call.rows && call.positions[row + count] == first + count) ++count;
  return row + count;
}

// In order: of two rows at one position the later wins.
void write_head(const KvWrite& call, int head) {
  for (int row = 0, end; row < call.rows; row = end) {
    end = run_end(call, row);
    write_run(call, head, row, end - row);
  }
}

// The positions follow each other: then run r of a head has the rows of one page.
bool is_one_stretch(const KvWrite& call) {
  for (int row = 1; row < call.rows; ++row)
    if (call.positions[row] != call.positions[0] + row) return false;
  return true;
}

void write_stretch(Context& context, const KvWrite& call) {
  const int tokens = call.kv.memory.tokens, heads = call.kv.memory.heads, skipped = call.positions[0] % tokens;
  const int pages = (skipped + call.rows + tokens - 1) / tokens;
  parallel_for(context.pool, pages * heads, [&](int task, int) {
    const int page = task / heads, begin = std::max(0, page * tokens - skipped);
    write_run(call, task % heads, begin, std::min(call.rows, (page + 1) * tokens - skipped) - begin);
  });
}

bool pages_ok(const KvWrite& call) {
  for (int row = 0; row < call.rows; ++row)
    if (call.positions[row] < 0 || !kv_has_page(call.kv, call.positions[row] / call.kv.memory.tokens)) return false;
  return true;
}

// Fewer values than this are written faster by one thread than handed out.
constexpr int kParallelValues = 4096;

}  // namespace
}  // namespace eb

using namespace eb;

EB_API int eb_kv_write(Context* context, const float* k, int64_t k_stride, const float* v, int64_t v_stride,
                       const int32_t* positions, int32_t rows, const KvMemory* memory, const int32_t* table,
                       int64_t table_size) {
  const KvWrite call{k, k_stride, v, v_stride, positions, rows, {*memory, table, table_size}};
  if (!kv_shape_ok(*memory)) return kBadArgument;
  if (!pages_ok(call)) return kIndexOutOfRange;
  const int heads = memory->heads;
  if (rows * heads * memory->head_dim >= kParallelValues && is_one_stretch(call))
    write_stretch(*context, call);
  else
    for (int head = 0; head < heads; ++head) write_head(call, head);
  return kOk;
}
