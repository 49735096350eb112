#include "api.h"
#include "router.h"

#include "context.h"
#include "norm.h"

namespace eb {
namespace {

// Fewer multiply-adds than this are done faster by one thread than handed out.
constexpr int64_t kParallelWork = 32768;
constexpr int kTaskRows = 4;
constexpr int kTaskExperts = 16;

RouterSelect select_for(Isa isa) {
#if defined(__x86_64__) || defined(_M_X64)
  if (isa >= Isa::avx512) return kRouterSelectAvx512;
  if (isa >= Isa::avx2) return kRouterSelectAvx2;
#endif
  (void)isa;
  return kRouterSelectPortable;
}

struct Router {
  const float* x;
  const float* w;
  int rows;
  int experts;
  int64_t d;
  float* logits;
  int stride;  // of logits, in floats

  int row_blocks() const { return (rows + kTaskRows - 1) / kTaskRows; }
  int expert_blocks() const { return (experts + kTaskExperts - 1) / kTaskExperts; }

  // Some experts for some rows: an expert's weights are read once for all the rows.
  void block(const NormKernels& kernels, int row_block, int expert_block) const {
    const int row_end = row_block * kTaskRows + kTaskRows, expert_end = expert_block * kTaskExperts + kTaskExperts;
    for (int e = expert_block * kTaskExperts; e < expert_end && e < experts; ++e)
      for (int row = row_block * kTaskRows; row < row_end && row < rows; ++row)
        logits[static_cast<ptrdiff_t>(row) * stride + e] = kernels.dot(x + row * d, w + e * d, d);
  }
};

int padded(int experts) { return (experts + 15) / 16 * 16; }

}  // namespace
}  // namespace eb

using namespace eb;

EB_API int64_t eb_router_workspace(int32_t rows, int32_t experts) {
  return static_cast<int64_t>(rows) * padded(experts) * static_cast<int64_t>(sizeof(float)) + 128;
}

EB_API int eb_router(Context* context, const float* x, const float* w, int32_t rows, int32_t experts, int64_t d,
                     int32_t top_k, int32_t normalise, int32_t* idx, float* weights) {
  if (rows < 0 || d <= 0 || top_k < 1 || top_k > experts || top_k > kMaxTopK) return kBadArgument;
  Carver arena(*context);
  const int stride = padded(experts);
  const Router call{x, w, rows, experts, d, arena.take<float>(static_cast<size_t>(rows) * stride), stride};
  if (!arena.ok()) return kWorkspaceTooSmall;
  const NormKernels& kernels = norm_kernels(context->isa);
  const RouterSelect select = select_for(context->isa);
  const auto choose = [&](int row, int) {
    select(call.logits + static_cast<ptrdiff_t>(row) * stride, experts, top_k, normalise != 0,
           idx + static_cast<ptrdiff_t>(row) * top_k, weights + static_cast<ptrdiff_t>(row) * top_k);
  };
  const int tasks = call.row_blocks() * call.expert_blocks();
  const auto part = [&](int task, int) {
    call.block(kernels, task / call.expert_blocks(), task % call.expert_blocks());
  };
  if (static_cast<int64_t>(rows) * experts * d < kParallelWork) {
    for (int task = 0; task < tasks; ++task) part(task, 0);
    for (int row = 0; row < rows; ++row) choose(row, 0);
    return kOk;
  }
  parallel_for(context->pool, tasks, part);
  parallel_for(context->pool, rows, choose);
  return kOk;
}
