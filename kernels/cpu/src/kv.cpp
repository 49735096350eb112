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

// Rows of one KV head, in order (of two rows at one position the later wins).
void write_head(const KvWrite& call, int head) {
  const int d = call.kv.memory.head_dim, tokens = call.kv.memory.tokens;
  for (int row = 0; row < call.rows; ++row) {
    const int64_t run = call.positions[row] / tokens;
    const int place = call.positions[row] % tokens;
    const float* k = call.k + row * call.k_stride + static_cast<ptrdiff_t>(head) * d;
    const float* v = call.v + row * call.v_stride + static_cast<ptrdiff_t>(head) * d;
    uint16_t* key = kv_key(call.kv, run, head, place);
    uint16_t* value = kv_value(call.kv, run, head, place);
    for (int i = 0; i < d; ++i) key[static_cast<ptrdiff_t>(i) * tokens] = EB_ISA::f32_to_bf16(k[i]);
    for (int i = 0; i < d; ++i) value[i] = EB_ISA::f32_to_bf16(v[i]);
  }
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
  if (rows * heads * memory->head_dim < kParallelValues)
    for (int head = 0; head < heads; ++head) write_head(call, head);
  else
    parallel_for(context->pool, heads, [&](int head, int) { write_head(call, head); });
  return kOk;
}
