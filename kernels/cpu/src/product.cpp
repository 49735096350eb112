#include "product.h"

#include <algorithm>
#include <cstring>

namespace eb {

const LinearKernels& linear_kernels(Isa isa) {
#if defined(__x86_64__) || defined(_M_X64)
  if (isa >= Isa::avx512) return kLinearAvx512;
  if (isa == Isa::avxvnni) return kLinearAvxVnni;
  if (isa == Isa::avx2) return kLinearAvx2;
#endif
  (void)isa;
  return kLinearPortable;
}

const MatrixKernels* matrix_kernels(Isa isa) {
#if defined(__linux__) && defined(__x86_64__)
  if (isa == Isa::amx) return &kMatrixAmx;
#endif
  (void)isa;
  return nullptr;
}

namespace {

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t scale_bytes(size_t groups) { return aligned(groups * 2 * kStripRows * sizeof(float)); }
size_t meta_bytes(size_t groups) { return aligned(groups * 64); }  // HALF_MIN is the largest
size_t codes_bytes() { return size_t{kPanelGroups} * kGroupCols * kStripRows * sizeof(int16_t); }

}  // namespace

ScratchSet::ScratchSet(Carver& carver, const Context& context, int cols, int rows)
    : groups_(static_cast<size_t>(cols / kGroupCols)), rows_(static_cast<size_t>(rows)) {
  bytes_ = 2 * scale_bytes(groups_) + meta_bytes(groups_) + codes_bytes() + rows_ * kStripRows * sizeof(float);
  base_ = carver.take<uint8_t>(bytes_ * static_cast<size_t>(context.pool.threads()));
}

Scratch ScratchSet::of(int worker) const {
  uint8_t* at = base_ + bytes_ * static_cast<size_t>(worker);
  const auto next = [&at](size_t bytes) {
    uint8_t* start = at;
    at += bytes;
    return start;
  };
  Scratch scratch;
  scratch.s = reinterpret_cast<float*>(next(scale_bytes(groups_)));
  scratch.m = reinterpret_cast<float*>(next(scale_bytes(groups_)));
  scratch.meta = next(meta_bytes(groups_));
  scratch.codes = reinterpret_cast<int16_t*>(next(codes_bytes()));
  scratch.acc = reinterpret_cast<float*>(at);
  return scratch;
}

namespace {

Scales scales_from(const CodeBook& book, const Scratch& scratch, int group) {
  const int per_group = book.form == Form::halves ? 2 * kStripRows : kStripRows;
  return {scratch.s + group * per_group, scratch.m + group * kStripRows};
}

bool one_row(const LinearKernels& kernels, const CodeBook& book, Cursor& cursor, int strip, const ActGroup* row,
             const Scratch& scratch) {
  const int groups = cursor.view().groups();
  Segment part;
  for (int g = 0; g < groups; g += part.groups) {
    if (!cursor.segment(strip, g, &part)) return false;
    kernels.gemv(book, part, row + g, scales_from(book, scratch, g), scratch.acc);
  }
  return true;
}

// Hands `groups` groups of a strip to `expand(segment, group counted from the first)`.
template <typename Expand>
bool expand_panel(Cursor& cursor, int strip, int first, int groups, Expand expand) {
  Segment part;
  for (int g = 0; g < groups; g += part.groups) {
    if (!cursor.segment(strip, first + g, &part)) return false;
    part.groups = std::min(part.groups, groups - g);
    expand(part, g);
  }
  return true;
}

// Tiles of nearly equal height, so that no tile is left with a single row.
void panel_tiles(const LinearKernels& kernels, const CodeBook& book, int first, int groups, const ActGroup* const* rows,
                 int count, const Scratch& scratch) {
  const Scales scales = scales_from(book, scratch, first);
  const int tiles = (count + kTileRows - 1) / kTileRows;
  for (int i = 0; i < tiles; ++i) {
    const int begin = static_cast<int>(int64_t{count} * i / tiles), end = static_cast<int>(int64_t{count} * (i + 1) / tiles);
    const ActGroup* at[kTileRows];
    for (int r = begin; r < end; ++r) at[r - begin] = rows[r] + first;
    kernels.tile(book, scratch.codes, groups, at, end - begin, scales, scratch.acc + begin * kStripRows);
  }
}

bool with_vectors(const LinearKernels& kernels, const CodeBook& book, Cursor& cursor, int strip, const Rows& rows,
                  const Scratch& scratch) {
  const int all = cursor.view().groups();
  for (int first = 0; first < all; first += kPanelGroups) {
    const int groups = std::min(kPanelGroups, all - first);
    const auto expand = [&](const Segment& part, int at) {
      kernels.expand(book, part, scratch.codes + at * kGroupCols * kStripRows);
    };
    if (!expand_panel(cursor, strip, first, groups, expand)) return false;
    panel_tiles(kernels, book, first, groups, rows.row, rows.count, scratch);
  }
  return true;
}

// As many groups at a time as the room for int16 codes takes.
bool with_matrix(const MatrixKernels& kernels, MatrixUnit& unit, const CodeBook& book, Cursor& cursor, int strip,
                 const Rows& rows, const Scratch& scratch) {
  int8_t* codes = reinterpret_cast<int8_t*>(scratch.codes);
  const int all = cursor.view().groups(), each = group_bytes(book);
  const int panel = static_cast<int>(codes_bytes()) / each;
  bool is_there = true;
  unit.set_up(book);
  for (int first = 0; first < all && is_there; first += panel) {
    const int groups = std::min(panel, all - first);
    const auto expand = [&](const Segment& part, int at) {
      kernels.expand(book, part, codes + at * each);
    };
    is_there = expand_panel(cursor, strip, first, groups, expand);
    if (is_there)
      kernels.tiles(book, codes, first, groups, rows.packed, rows.count, scales_from(book, scratch, first),
                    scratch.acc);
  }
  return is_there;
}

}  // namespace

// The scales of the strip behind come into the second-level cache while this one is multiplied: read on demand, their
// first bytes are waited for.
static void prefetch_behind(const uint8_t* meta, int bytes) {
#if defined(__GNUC__)
  for (int at = bytes; at < 2 * bytes; at += kLineBytes) __builtin_prefetch(meta + at, 0, 2);
#else
  (void)meta, (void)bytes;
#endif
}

bool strip_product(const Kernels& kernels, MatrixUnit& unit, Cursor& cursor, int strip, const Rows& rows,
                   const Scratch& scratch) {
  const View& view = cursor.view();
  if (cursor.width() == 0) return false;
  const CodeBook book(view, cursor.width(), cursor.table());
  const uint8_t* meta = cursor.meta(strip, scratch.meta);
  if (meta == nullptr) return false;
  kernels.strip.decode_scales(view.scale, meta, view.groups(), {scratch.s, scratch.m});
  if (meta != scratch.meta) prefetch_behind(meta, view.strip_meta_bytes);
  if (rows.packed.data != nullptr) return with_matrix(*kernels.matrix, unit, book, cursor, strip, rows, scratch);
  std::memset(scratch.acc, 0, sizeof(float) * kStripRows * static_cast<size_t>(rows.count));
  if (rows.count == 1) return one_row(kernels.strip, book, cursor, strip, rows.row[0], scratch);
  return with_vectors(kernels.strip, book, cursor, strip, rows, scratch);
}

void quantise_rows(Context& context, const Kernels& kernels, const float* x, int64_t stride, int rows, int cols,
                   ActGroup* out, const PackedRows& packed) {
  const int groups = cols / kGroupCols;
  const auto quantise = [&](int row, int) {
    if (packed.data == nullptr) return kernels.strip.quantise(x + row * stride, cols, out + int64_t{row} * groups);
    kernels.matrix->quantise(x + row * stride, groups, packed.at(row, 0), row % kMatrixRows);
  };
  if (rows < 8)
    for (int row = 0; row < rows; ++row) quantise(row, 0);
  else
    parallel_for(context.pool, rows, quantise);
}

}  // namespace eb
