// Single rows of a plane matrix as floats (embeddings), and the packing of codes into planes.
#include <algorithm>
#include <atomic>

#include "api.h"
#include "bits.h"
#include "product.h"

using namespace eb;

namespace {

constexpr int kHalfCols = kGroupCols / 2;
constexpr int kHalfBytes = kLineBytes / 2;

// The 32 codes of `row` of a strip in the group at `lines`.
void row_codes(const Segment& part, int group, int bits, int row, uint8_t* codes) {
  for (int h = 0; h < 2; ++h)
    for (int parity = 0; parity < 2; ++parity) {
      uint64_t word = 0;
      const int byte = group * kLineBytes + h * kHalfBytes + 2 * kRowOfPair[row] + parity;
      for (int p = 0; p < bits; ++p) word |= static_cast<uint64_t>(part.lines[p][byte]) << 8 * (bits - 1 - p);
      word = transpose_bits(word);
      for (int i = 0; i < 8; ++i) codes[h * kHalfCols + 2 * i + parity] = static_cast<uint8_t>(word >> 8 * i);
    }
}

void row_values(const CodeBook& book, const uint8_t* codes, const Scales& scales, int group, int row, float* out) {
  for (int c = 0; c < kGroupCols; ++c) {
    const int at = book.form == Form::halves ? 2 * group + c / kHalfCols : group;
    const float value = scales.s[at * kStripRows + row] * (static_cast<float>(codes[c]) * book.step - book.offset);
    out[c] = book.form == Form::minimum ? value + scales.m[group * kStripRows + row] : value;
  }
}

bool embed_row(const LinearKernels& kernels, Cursor& cursor, int row, const Scratch& scratch, float* out) {
  const View& view = cursor.view();
  const int strip = row / kStripRows, in_strip = row % kStripRows;
  if (cursor.width() == 0) return false;
  const CodeBook book(view, cursor.width(), cursor.table());
  const uint8_t* meta = cursor.meta(strip, scratch.meta);
  if (meta == nullptr) return false;
  kernels.decode_scales(view.scale, meta, view.groups(), {scratch.s, scratch.m});
  Segment part;
  for (int g = 0; g < view.groups(); g += part.groups) {
    if (!cursor.segment(strip, g, &part)) return false;
    for (int i = 0; i < part.groups; ++i) {
      uint8_t codes[kGroupCols];
      row_codes(part, i, book.bits, in_strip, codes);
      if (book.table != nullptr)
        for (uint8_t& code : codes) code = book.table[code];
      row_values(book, codes, {scratch.s, scratch.m}, g + i, in_strip, out + (g + i) * kGroupCols);
    }
  }
  return true;
}

}  // namespace

EB_API int eb_embed(Context* context, const Block* block, const int32_t* ids, int count, float* out) {
  const View& view = block->view[0];
  for (int i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= view.rows) return kIndexOutOfRange;
  if (block->widths[0] == 0) return kAbsentBlock;
  Carver carver(*context);
  ScratchSet scratch(carver, *context, view.cols, 1);
  if (!carver.ok()) return kWorkspaceTooSmall;
  std::atomic<bool> absent{false};
  parallel_for(context->pool, count, [&](int i, int worker) {
    Cursor cursor(*block, 0, 0);
    if (!embed_row(linear_kernels(context->isa), cursor, ids[i], scratch.of(worker), out + int64_t{i} * view.cols))
      absent.store(true);
  });
  return absent ? kAbsentBlock : kOk;
}

// Codes u8 [strips * 16][cols] -> bytes of `planes` planes, strips [first, last). Runs on the calling thread alone.
EB_API void eb_pack_planes(const uint8_t* codes, int cols, int first, int last, int planes, uint8_t* const* out) {
  static const LinearKernels& kernels = linear_kernels(best_isa());
  const int groups = cols / kGroupCols;
  for (int strip = first; strip < last; ++strip)
    for (int g = 0; g < groups; ++g)
      for (int h = 0; h < 2; ++h)
        kernels.pack_half(codes + int64_t{strip} * kStripRows * cols + g * kGroupCols + h * kHalfCols, cols, planes, out,
                          (int64_t{strip} * groups + g) * kLineBytes + h * kHalfBytes);
}
