// Gated activation and the weighted sum of experts' outputs.
#include "api.h"
#include "context.h"
#include "linear_kernels.h"

using namespace eb;

namespace {

constexpr int64_t kSerialValues = 16384;  // below this a parallel region costs more than it saves

template <typename Body>
void for_rows(Context& context, int rows, int64_t values, Body body) {
  if (values < kSerialValues)
    for (int row = 0; row < rows; ++row) body(row, 0);
  else
    parallel_for(context.pool, rows, body);
}

}  // namespace

EB_API int eb_glu(Context* context, const float* gate_up, float* out, int rows, int cols, int activation) {
  const LinearKernels& kernels = linear_kernels(context->isa);
  for_rows(*context, rows, int64_t{rows} * cols, [&](int row, int) {
    const float* gate = gate_up + int64_t{2} * row * cols;
    kernels.glu(activation, gate, gate + cols, cols, out + int64_t{row} * cols);
  });
  return kOk;
}

EB_API int eb_combine(Context* context, const float* pair, const float* weights, float* out, int rows, int top_k,
                      int cols) {
  const LinearKernels& kernels = linear_kernels(context->isa);
  for_rows(*context, rows, int64_t{rows} * cols * top_k, [&](int row, int) {
    kernels.combine(pair + int64_t{row} * top_k * cols, cols, weights + int64_t{row} * top_k, top_k, cols,
                    out + int64_t{row} * cols);
  });
  return kOk;
}
