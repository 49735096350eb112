// Products of many rows with 16 x 16 tiles of bytes, on processors that have a unit for it.
//
// Sums are exact integers, as everywhere (linear_kernels.h), so the unit changes no bit of a result. It multiplies
// bytes: an activation q is taken apart, q = 16 * high + low with low in [-128, 127] and high a multiple of 16 in
// [-128, 112], since q has 12 bits. Codes are bytes, too: at full width without `zero`.
//
// Where codes v have up to four bits (and stand for themselves: no table), 16 v is a byte as well, and one product of 64 columns makes
// sum q * v = sum high * (16 v) + sum low * v. Otherwise two products make 16 * sum high * v + sum low * v.
#pragma once

#include <cstdint>

#include "linear_kernels.h"

namespace eb {

constexpr int kMatrixRows = 16;       // rows of x in one tile
constexpr int kLeastMatrixRows = 12;  // fewer are left to `LinearKernels::tile`
constexpr int kByteGroup = kStripRows * kGroupCols;  // bytes of one group of a strip's codes
constexpr int kFewBits = 4;

// Whether high and low parts are multiplied at once, and what a group of codes then takes.
inline bool is_few(const CodeBook& book) {
  return book.bits <= kFewBits && book.form != Form::halves && book.table == nullptr;
}
inline int group_bytes(const CodeBook& book) { return is_few(book) ? 2 * kByteGroup : kByteGroup; }

// One group of 16 rows of x; see ActGroup.
struct alignas(64) PackedGroup {
  int8_t parts[kMatrixRows][2 * kGroupCols];  // high, low
  float scale[kMatrixRows], scaled_sum[kMatrixRows];
  int32_t sum[kMatrixRows], sum_low[kMatrixRows];
};

// Rows of x for the unit: [tile of 16 rows][group]. Rows beyond the last one may hold anything.
struct PackedRows {
  PackedGroup* data = nullptr;
  int groups = 0;

  static int tiles(int rows) { return (rows + kMatrixRows - 1) / kMatrixRows; }
  PackedGroup* at(int row, int group) const {
    return data + static_cast<int64_t>(row / kMatrixRows) * groups + group;
  }
};

struct MatrixKernels {
  // As LinearKernels::quantise, into place `row` of the tiles of `groups` groups.
  void (*quantise)(const float* x, int groups, PackedGroup* out, int row);
  // One group of a row into place `row` of a tile.
  void (*pack)(const ActGroup& act, PackedGroup* out, int row);
  // Codes of `part` as bytes [groups][8 column quads][16 rows][4], columns in the unit's own order (`pack` has the same);
  // at full width `zero` is already taken off. Few bits: 16 times the codes, then the codes.
  void (*expand)(const CodeBook& book, const Segment& part, int8_t* out);
  // acc[count][16] += rows of x times `groups` groups of codes from group `first` on (=, where that is 0). Between `begin`
  // and `end`.
  void (*tiles)(const CodeBook& book, const int8_t* codes, int first, int groups, PackedRows rows, int count,
                Scales scales, float* acc);
  // Set the unit up for this thread, and give it back.
  void (*begin)(const CodeBook& book);
  void (*end)();
};

// Has the unit set up for one book after the other, as long as it lives.
class MatrixUnit {
 public:
  explicit MatrixUnit(const MatrixKernels* kernels) : kernels_(kernels) {}
  ~MatrixUnit() {
    if (is_set_) kernels_->end();
  }
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;

  void set_up(const CodeBook& book) {
    const bool few = is_few(book);
    if (is_set_ && few == few_ && book.form == form_) return;
    kernels_->begin(book);
    is_set_ = true, few_ = few, form_ = book.form;
  }

 private:
  const MatrixKernels* kernels_;
  bool is_set_ = false, few_ = false;
  Form form_ = Form::plain;
};

#if defined(__linux__) && defined(__x86_64__)
extern const MatrixKernels kMatrixAmx;
#endif

// Null where `isa` has no such unit.
const MatrixKernels* matrix_kernels(Isa isa);

}  // namespace eb
