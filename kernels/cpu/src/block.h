// Blocks of plane matrices in paged memory: the C structures that cross the binding, and how a strip is found.
//
// The layout of lines, planes and scales is described in kernels/layout.py; `library.py` mirrors the structures.
#pragma once

#include <cstdint>

namespace eb {

constexpr int kMaxPlanes = 8;
constexpr int kMaxViews = 4;
constexpr int kStripRows = 16;
constexpr int kGroupCols = 32;
constexpr int kLineBytes = 64;

constexpr int kMostEntries = 1 << kMaxPlanes;

enum class Scale : int32_t { half = 0, half_min = 1, k6 = 2, k8 = 3, e8 = 4, s6 = 5 };

struct View {
  int32_t rows, cols, planes, zero;
  Scale scale;
  int32_t strip_meta_bytes;
  int64_t meta_offset;
  int64_t plane_offset[kMaxPlanes];
  // Null, or bytes [kMaxPlanes][kMostEntries]: what codes of b bits stand for is in row b - 1.
  const uint8_t* tables;
  // Negative, or where a block's own tables lie: those of b bits at tables_offset + 2^b, 2^b bytes.
  int64_t tables_offset;

  int strips() const { return (rows + kStripRows - 1) / kStripRows; }
  int groups() const { return cols / kGroupCols; }
};

struct Block {
  int32_t blocks, views;
  int64_t page_bytes;
  int64_t page_count;
  int32_t pages_per_slab, slabs;
  const uint64_t* slab_bases;
  const int32_t* page_table;
  const uint8_t* widths;
  View view[kMaxViews];
};

// The planes of one strip, as far as no plane crosses the end of a page.
struct Segment {
  const uint8_t* lines[kMaxPlanes];
  int groups;
};

// Finds the bytes of one view of one block. Keeps the last page of every plane, so that strips in order are cheap.
class Cursor {
 public:
  Cursor() = default;
  Cursor(const Block& block, int index, int view);

  const View& view() const { return *view_; }
  // Planes in use: the block's width, at most the view's planes.
  int width() const { return width_; }
  // Null, or a byte for each code of `width` bits; valid as long as the cursor stays where it is.
  const uint8_t* table() const;

  // Lines of `strip` from `group` on; false when a page is absent.
  bool segment(int strip, int group, Segment* out);

  // The scales of `strip`; copied into `room` (strip_meta_bytes) where they cross a page; null when absent.
  const uint8_t* meta(int strip, uint8_t* room) const;

 private:
  struct Run {
    int64_t begin = 0, end = 0;
    const uint8_t* base = nullptr;
  };
  bool locate(int64_t offset, Run* run) const;
  bool copy(int64_t offset, int64_t bytes, uint8_t* to) const;

  const Block* block_ = nullptr;
  const View* view_ = nullptr;
  const int32_t* pages_ = nullptr;
  int width_ = 0;
  Run runs_[kMaxPlanes];
  uint8_t own_table_[kMostEntries];
};

}  // namespace eb
