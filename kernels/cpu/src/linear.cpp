// out[M][N] = x[M][K] W^T for a block of plane matrices, and rows of a plane matrix (embeddings).
#include <algorithm>
#include <atomic>
#include <cstring>

#include "api.h"
#include "product.h"

using namespace eb;

namespace {

struct Linear {
  const float* x;
  float* out;
  const float* bias;
  int64_t x_stride, out_stride;
  int32_t rows, index, accumulate;
};

// Where a strip's 16 results go: the first `valid` of them to columns `column`...
struct Target {
  int column, valid;
};

void write_rows(const Linear& call, const Target& target, int first_row, int count, const float* acc) {
  const bool plain = target.valid == kStripRows && call.bias == nullptr && call.accumulate == 0;
  for (int r = 0; r < count; ++r, acc += kStripRows) {
    float* out = call.out + (first_row + r) * call.out_stride + target.column;
    if (plain) {
      std::memcpy(out, acc, kStripRows * sizeof(float));  // of a known size: moved without a call
      continue;
    }
    for (int i = 0; i < target.valid; ++i) {
      float value = call.bias != nullptr ? acc[i] + call.bias[target.column + i] : acc[i];
      out[i] = call.accumulate != 0 ? out[i] + value : value;
    }
  }
}

// Strips of all views in order, cut into chunks; rows of x cut into equal ranges where the strips are too few.
struct Partition {
  int strips = 0, chunk = 1, chunks = 1, row_parts = 1;
  int view_strips[kMaxViews];

  // `step`: ranges of rows begin at multiples of it.
  Partition(const Block& block, int rows, int threads, int step) : step_(step), rows_(rows) {
    for (int v = 0; v < block.views; ++v) strips += view_strips[v] = block.view[v].strips();
    chunk = std::max(1, strips / (threads * (rows == 1 ? 4 : 8)));
    chunks = (strips + chunk - 1) / chunk;
    row_parts = std::max(1, std::min((rows + 47) / 48, threads * 4 / chunks));
  }
  int tasks() const { return chunks * row_parts; }
  // The first row of range `part`.
  int row(int part) const {
    const int steps = (rows_ + step_ - 1) / step_;
    return std::min(rows_, static_cast<int>(int64_t{steps} * part / row_parts) * step_);
  }

 private:
  int step_, rows_;
};

struct LinearArrays {
  ActGroup* acts;         // [rows][cols / 32]
  const ActGroup** rows;  // [rows]
  ScratchSet scratch;
  PackedRows packed;

  LinearArrays(Carver& carver, const Context& context, int row_count, int cols)
      : acts(carver.take<ActGroup>(static_cast<size_t>(row_count) * (cols / kGroupCols))),
        rows(carver.take<const ActGroup*>(row_count)),
        scratch(carver, context, cols, row_count) {
    if (!Kernels(context.isa).packs(row_count)) return;
    packed.groups = cols / kGroupCols;
    packed.data = carver.take<PackedGroup>(static_cast<size_t>(PackedRows::tiles(row_count)) * packed.groups);
  }
};

class LinearTask {
 public:
  LinearTask(Context& context, const Block& block, const Linear& call)
      : kernels_(context.isa),
        block_(block),
        call_(call),
        parts_(block, call.rows, context.pool.threads(), kernels_.packs(call.rows) ? kMatrixRows : 1) {}

  int run(Context& context) {
    const int cols = block_.view[0].cols;
    Carver carver(context);
    LinearArrays arrays(carver, context, call_.rows, cols);
    if (!carver.ok()) return kWorkspaceTooSmall;
    quantise_rows(context, kernels_, call_.x, call_.x_stride, call_.rows, cols, arrays.acts, arrays.packed);
    for (int r = 0; r < call_.rows; ++r) arrays.rows[r] = arrays.acts + static_cast<int64_t>(r) * (cols / kGroupCols);
    parallel_for(context.pool, parts_.tasks(),
                 [&](int task, int worker) { strips(task, arrays, arrays.scratch.of(worker)); });
    return absent_ ? kAbsentBlock : kOk;
  }

 private:
  void strips(int task, const LinearArrays& arrays, const Scratch& scratch) {
    const int part = task % parts_.row_parts, begin = task / parts_.row_parts * parts_.chunk;
    const int first = parts_.row(part), count = parts_.row(part + 1) - first;
    if (count == 0) return;
    Rows rows{arrays.rows + first, count, arrays.packed};
    if (rows.packed.data != nullptr) rows.packed.data = rows.packed.at(first, 0);
    MatrixUnit unit(kernels_.matrix);
    int end = std::min(begin + parts_.chunk, parts_.strips), base = 0, column = 0;
    for (int v = 0; v < block_.views; base += parts_.view_strips[v], column += block_.view[v].rows, ++v) {
      const int from = std::max(begin - base, 0), to = std::min(end - base, parts_.view_strips[v]);
      if (from >= to) continue;
      Cursor cursor(block_, call_.index, v);
      for (int strip = from; strip < to; ++strip) {
        if (!strip_product(kernels_, unit, cursor, strip, rows, scratch)) return absent_.store(true);
        const int valid = std::min(kStripRows, block_.view[v].rows - strip * kStripRows);
        write_rows(call_, {column + strip * kStripRows, valid}, first, count, scratch.acc);
      }
    }
  }

  const Kernels kernels_;
  const Block& block_;
  const Linear& call_;
  const Partition parts_;
  std::atomic<bool> absent_{false};
};

}  // namespace

EB_API int eb_linear(Context* context, const Block* block, const float* x, int64_t x_stride, int32_t rows,
                     float* out, int64_t out_stride, int32_t index, const float* bias, int32_t accumulate) {
  if (rows <= 0) return kOk;
  if (index < 0 || index >= block->blocks) return kIndexOutOfRange;
  if (block->widths[index] == 0) return kAbsentBlock;
  const Linear call{x, out, bias, x_stride, out_stride, rows, index, accumulate};
  return LinearTask(*context, *block, call).run(*context);
}

EB_API size_t eb_linear_workspace(const Context* context, int rows, int cols) {
  Carver carver = Carver::measure();
  LinearArrays(carver, *context, rows, cols);
  return carver.used();
}
