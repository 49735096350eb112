#include <cstddef>
#include <cstdint>

#include "api.h"
#include "context.h"

namespace eb {
namespace {

// One head: pair i is (x[i * step], x[i * step + gap]). Plain products and sums: the same bits everywhere. `kStep` is
// known, so that the compiler makes vectors where it is 1.
template <int kStep>
void rotate(float* x, const float* cos, const float* sin, int pairs, int gap) {
  for (int i = 0; i < pairs; ++i) {
    float* first = x + static_cast<ptrdiff_t>(i) * kStep;
    const float a = first[0], b = first[gap];
    first[0] = a * cos[i] - b * sin[i];
    first[gap] = a * sin[i] + b * cos[i];
  }
}

// Fewer values than this are rotated faster by one thread than handed out.
constexpr int64_t kParallelValues = 16384;
constexpr int kRowsPerTask = 8;

}  // namespace
}  // namespace eb

using namespace eb;

EB_API int eb_rope(Context* context, float* x, int64_t row_stride, int32_t rows, int32_t heads, int32_t head_dim,
                   const float* cos, const float* sin, int64_t table_rows, int32_t pairs, const int32_t* positions,
                   int32_t interleaved) {
  if (rows < 0 || pairs < 0 || 2 * pairs > head_dim) return kBadArgument;
  for (int row = 0; row < rows; ++row)
    if (positions[row] < 0 || positions[row] >= table_rows) return kIndexOutOfRange;
  const auto one_row = [&](int row) {
    const ptrdiff_t angles = static_cast<ptrdiff_t>(positions[row]) * pairs;
    for (int head = 0; head < heads; ++head) {
      float* start = x + row * row_stride + static_cast<ptrdiff_t>(head) * head_dim;
      if (interleaved)
        rotate<2>(start, cos + angles, sin + angles, pairs, 1);
      else
        rotate<1>(start, cos + angles, sin + angles, pairs, pairs);
    }
  };
  if (static_cast<int64_t>(rows) * heads * head_dim < kParallelValues) {
    for (int row = 0; row < rows; ++row) one_row(row);
    return kOk;
  }
  parallel_for(context->pool, (rows + kRowsPerTask - 1) / kRowsPerTask, [&](int task, int) {
    for (int row = task * kRowsPerTask; row < (task + 1) * kRowsPerTask && row < rows; ++row) one_row(row);
  });
  return kOk;
}
