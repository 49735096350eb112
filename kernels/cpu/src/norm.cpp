#include "api.h"
#include "norm.h"

#include "context.h"

namespace eb {
namespace {

// Fewer values than this are done faster by one thread than handed out.
constexpr int64_t kParallelValues = 16384;
constexpr int kRowsPerTask = 8;

}  // namespace

const NormKernels& norm_kernels(Isa isa) {
#if defined(__x86_64__) || defined(_M_X64)
  if (isa >= Isa::avx512) return kNormAvx512;
  if (isa >= Isa::avx2) return kNormAvx2;
#endif
  (void)isa;
  return kNormPortable;
}

}  // namespace eb

using namespace eb;

EB_API int eb_rmsnorm(Context* context, const float* x, const float* weight, float eps, float* out, int64_t rows,
                      int64_t d) {
  if (rows < 0 || d <= 0) return kBadArgument;
  const NormKernels& kernels = norm_kernels(context->isa);
  const auto some = [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) kernels.rmsnorm_row(x + row * d, weight, d, eps, out + row * d);
  };
  if (rows * d < kParallelValues) {
    some(0, rows);
    return kOk;
  }
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  parallel_for(context->pool, static_cast<int>(tasks), [&](int task, int) {
    const int64_t first = static_cast<int64_t>(task) * kRowsPerTask;
    some(first, first + kRowsPerTask < rows ? first + kRowsPerTask : rows);
  });
  return kOk;
}
