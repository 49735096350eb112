// Products of single strips with any number of rows of x, and the scratch of a worker.
#pragma once

#include "block.h"
#include "context.h"
#include "linear_kernels.h"
#include "matrix_kernels.h"

namespace eb {

constexpr int kPanelGroups = 16;  // groups of a strip that are expanded at a time: 16 KiB, half of a first-level cache

// The kernels of an instruction set. `matrix` is null where it has no unit for matrices.
struct Kernels {
  const LinearKernels& strip;
  const MatrixKernels* matrix;

  explicit Kernels(Isa isa) : strip(linear_kernels(isa)), matrix(matrix_kernels(isa)) {}
  // Whether so many rows are worth the matrix unit.
  bool packs(int rows) const { return matrix != nullptr && rows >= kLeastMatrixRows; }
};

// Rows of x of one strip product; where `packed` has data, they lie there instead.
struct Rows {
  const ActGroup* const* row;
  int count;
  PackedRows packed;
};

// Scratch of one worker. Sizes follow the largest matrix of a call.
struct Scratch {
  float* s;
  float* m;
  uint8_t* meta;
  int16_t* codes;
  float* acc;  // [rows][16]
};

// Cuts the scratch of all workers; `rows` = the most rows of x of one strip product.
class ScratchSet {
 public:
  ScratchSet(Carver& carver, const Context& context, int cols, int rows);
  Scratch of(int worker) const;

 private:
  size_t groups_, rows_, bytes_ = 0;
  uint8_t* base_ = nullptr;
};

// scratch.acc[r][16] = rows.row[r] times the strip, for r < rows.count; false when a page of the block is absent.
bool strip_product(const Kernels& kernels, MatrixUnit& unit, Cursor& cursor, int strip, const Rows& rows,
                   const Scratch& scratch);

// Quantises x[rows][cols] (row stride in floats) into out[rows][cols / 32], or into `packed` where that has room.
void quantise_rows(Context& context, const Kernels& kernels, const float* x, int64_t stride, int rows, int cols,
                   ActGroup* out, const PackedRows& packed = {});

}  // namespace eb
