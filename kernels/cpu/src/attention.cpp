#include "api.h"
#include "attention.h"

#include "context.h"

namespace eb {
namespace {

// Few rows over a long context are split by chunk as well: so many (row, chunk) partials per query head are kept at
// a time.
constexpr int kSlots = 64;
constexpr int kMaxSplitRows = 32;
// Below this many tasks per thread there are too few row blocks to keep the threads busy.
constexpr int kTasksPerThread = 4;
constexpr int kSplitTasksPerThread = 8;

int smaller(int a, int b) { return a < b ? a : b; }
int larger(int a, int b) { return a > b ? a : b; }
int ceil_div(int value, int step) { return (value + step - 1) / step; }

const AttentionKernels& kernels_for(Isa isa) {
#if defined(__x86_64__) || defined(_M_X64)
  if (isa >= Isa::avx512) return kAttentionAvx512;
  if (isa >= Isa::avx2) return kAttentionAvx2;
#endif
  (void)isa;
  return kAttentionPortable;
}

AttentionPartial take_partial(Carver& arena, size_t pairs, int head_dim) {
  float* best = arena.take<float>(pairs);
  float* total = arena.take<float>(pairs);
  return {best, total, arena.take<float>(pairs * head_dim)};
}

AttentionScratch take_scratch(Carver& arena, int pairs, int d) {
  AttentionScratch scratch;
  scratch.q = arena.take<float>(static_cast<size_t>(pairs) * d);
  scratch.scores = arena.take<float>(static_cast<size_t>(pairs) * kScoreStride);
  scratch.tile = arena.take<float>(static_cast<size_t>(kTileKeys + 16) * d);
  scratch.chunk = take_partial(arena, pairs, d);
  scratch.state = take_partial(arena, pairs, d);
  return scratch;
}

AttentionPartial at(AttentionPartial partial, size_t pair, int head_dim) {
  return {partial.best + pair, partial.total + pair, partial.sum + pair * head_dim};
}

void clear(AttentionPartial partial, int pairs) {
  for (int i = 0; i < pairs; ++i) partial.total[i] = 0.0f;
}

int rows_per_block(int group) { return smaller(larger(kBlockPairs / group, 1), kMaxBlockRows); }

struct Attention {
  const AttentionCall& call;
  const AttentionKernels& kernels;
  Pool& pool;
  Carver arena;

  int head_dim() const { return call.kv.memory.head_dim; }
  int kv_heads() const { return call.kv.memory.heads; }
  int block_rows() const { return rows_per_block(group_of(call)); }
  int blocks() const { return ceil_div(call.rows, block_rows()) * kv_heads(); }

  AttentionBlock block(int index) const {
    const int first = index / kv_heads() * block_rows();
    AttentionBlock made{first, smaller(block_rows(), call.rows - first), index % kv_heads(), 0};
    for (int row = 0; row < made.rows; ++row) made.limit = larger(made.limit, limit_of(call, first + row));
    return made;
  }

  // Scratch of worker `worker`: all workers' scratch has the same size.
  AttentionScratch scratch(int worker) {
    Carver mine = arena;
    AttentionScratch found{};
    for (int i = 0; i <= worker; ++i) found = take_scratch(mine, smaller(block_rows(), call.rows) * group_of(call), head_dim());
    return found;
  }

  void whole_block(int index, AttentionScratch scratch) const {
    const AttentionBlock mine = block(index);
    kernels.scale_queries(call, mine, scratch.q);
    kernels.chunk(call, mine, 0, scratch, scratch.state);
    for (int chunk = 1; chunk < chunks_of(mine); ++chunk) {
      kernels.chunk(call, mine, chunk, scratch, scratch.chunk);
      kernels.fold(scratch.state, scratch.chunk, pairs_of(call, mine), head_dim());
    }
    kernels.finish(call, mine, scratch.state);
  }

  // Later blocks see more keys: they go first, so that the last tasks are short.
  void run_whole() {
    const int count = blocks();
    parallel_for(pool, count, [&](int task, int worker) { whole_block(count - 1 - task, scratch(worker)); });
  }

  // Place of a block's first pair among all pairs of the call.
  size_t first_pair(const AttentionBlock& mine) const {
    return static_cast<size_t>(mine.first) * call.heads + static_cast<size_t>(mine.kv_head) * pairs_of(call, mine);
  }

  // Chunks first .. end - 1 of a wave that starts at chunk `origin`, each into its slot.
  void some_chunks(const AttentionBlock& mine, int first, int end, int origin, AttentionPartial slots,
                   AttentionScratch scratch) const {
    kernels.scale_queries(call, mine, scratch.q);
    for (int chunk = first; chunk < end; ++chunk) {
      const size_t place = static_cast<size_t>(chunk - origin) * call.rows * call.heads + first_pair(mine);
      const AttentionPartial slot = at(slots, place, head_dim());
      if (chunk < chunks_of(mine))
        kernels.chunk(call, mine, chunk, scratch, slot);
      else
        clear(slot, pairs_of(call, mine));
    }
  }

  // Chunks in waves of as many as there are slots; each wave is folded in order before the next one starts.
  void run_split(int chunks, AttentionPartial slots, AttentionPartial state) {
    const int count = blocks(), pairs = call.rows * call.heads, d = head_dim();
    const int width = larger(kSlots / call.rows, 1);
    clear(state, pairs);
    for (int first = 0; first < chunks; first += width) {
      const int wave = smaller(width, chunks - first);
      // Neighbouring chunks to one task, so that it can fetch ahead, but enough tasks for all threads to end together.
      const int span = larger(1, wave * count / (kSplitTasksPerThread * pool.threads()));
      parallel_for(pool, ceil_div(wave, span) * count, [&](int task, int worker) {
        const int start = first + task / count * span;
        some_chunks(block(task % count), start, smaller(start + span, first + wave), first, slots, scratch(worker));
      });
      for (int i = 0; i < wave; ++i) kernels.fold(state, at(slots, static_cast<size_t>(i) * pairs, d), pairs, d);
    }
    for (int i = 0; i < count; ++i) {
      const AttentionBlock mine = block(i);
      kernels.finish(call, mine, at(state, first_pair(mine), d));
    }
  }

  int run() {
    int chunks = 0;
    for (int i = 0; i < blocks(); i += kv_heads()) chunks = larger(chunks, chunks_of(block(i)));
    const bool split = call.rows <= kMaxSplitRows && chunks > 1 && blocks() < kTasksPerThread * pool.threads();
    AttentionPartial slots{}, state{};
    if (split) {
      slots = take_partial(arena, static_cast<size_t>(larger(kSlots / call.rows, 1)) * call.rows * call.heads, head_dim());
      state = take_partial(arena, static_cast<size_t>(call.rows) * call.heads, head_dim());
    }
    Carver all = arena;
    for (int i = 0; i < pool.threads(); ++i) take_scratch(all, smaller(block_rows(), call.rows) * group_of(call), head_dim());
    if (!arena.ok() || !all.ok()) return kWorkspaceTooSmall;
    if (split)
      run_split(chunks, slots, state);
    else
      run_whole();
    return kOk;
  }
};

bool pages_ok(const AttentionCall& call) {
  int last = 0;
  for (int row = 0; row < call.rows; ++row) {
    if (call.positions[row] < 0) return false;
    last = larger(last, call.positions[row]);
  }
  for (int64_t run = 0; run <= last / call.kv.memory.tokens; ++run)
    if (!kv_has_page(call.kv, run)) return false;
  return true;
}

}  // namespace
}  // namespace eb

using namespace eb;

// Bytes of workspace for any call of at most `rows` rows with `heads` query heads, at any context and group size.
EB_API int64_t eb_attention_workspace(int32_t rows, int32_t heads, int32_t head_dim, int32_t threads) {
  Carver counter = Carver::measure();
  const size_t pairs = static_cast<size_t>(smaller(larger(kBlockPairs, heads), rows * heads));
  for (int i = 0; i < threads; ++i) take_scratch(counter, static_cast<int>(pairs), head_dim);
  take_partial(counter, static_cast<size_t>(kSlots) * heads, head_dim);
  take_partial(counter, static_cast<size_t>(smaller(rows, kMaxSplitRows)) * heads, head_dim);
  return static_cast<int64_t>(counter.used());
}

EB_API int eb_attention(Context* context, const float* q, int64_t q_stride, const int32_t* positions, int32_t rows,
                        int32_t heads, float scale, const KvMemory* memory, const int32_t* table, int64_t table_size,
                        float* out) {
  const AttentionCall call{q, q_stride, positions, rows, heads, scale, {*memory, table, table_size}, out};
  if (rows < 0 || !kv_shape_ok(*memory) || heads % memory->heads != 0) return kBadArgument;
  if (rows == 0) return kOk;
  if (!pages_ok(call)) return kIndexOutOfRange;
  return Attention{call, kernels_for(context->isa), context->pool, Carver(*context)}.run();
}
