// The tiles of AMX: 16 rows of x times 16 rows of W, 32 columns at a time.
//
// A group's two products take the unit 32 cycles; turning its sums into floats takes the vector units longer, so that
// is what counts here: 16 accumulators stay in registers over all groups of a panel.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(__linux__) && defined(__x86_64__)
#include <cstring>

#include "byte_codes.h"
#include "matrix_kernels.h"
#include "simd.h"
#include "strip_x86.h"

namespace eb {
namespace EB_ISA {
namespace {

constexpr int kTileValues = kMatrixRows * kStripRows;
constexpr int kLag = 2;  // steps from the multiplication of a group to its sums' way into floats
constexpr int kBuffers = 4;
// Tile registers: GCC makes their names of what stands in a call.
#define EB_HIGH 0
#define EB_LOW 1
#define EB_CODES 2
#define EB_HIGH_SUMS 3
#define EB_LOW_SUMS 4
#define EB_HIGH_SUMS_ODD 5
#define EB_LOW_SUMS_ODD 6

// Columns that share a scale are multiplied together.
constexpr int columns(Form form) { return form == Form::halves ? kGroupCols / 2 : kGroupCols; }

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int count, int bytes) {
    rows[tile] = static_cast<uint8_t>(count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64, "the layout is the processor's");

// The intrinsics do not tell the compiler what memory they read and write (those of GCC 12: not all of it).
inline void memory_is_seen() { __asm__ volatile("" ::: "memory"); }

void begin(Form form) {
  TileConfig config;
  __asm__ volatile("" ::"r"(&config));
  config.set(EB_HIGH, kMatrixRows, columns(form));
  config.set(EB_LOW, kMatrixRows, columns(form));
  config.set(EB_CODES, columns(form) / 4, 4 * kStripRows);
  config.set(EB_HIGH_SUMS, kMatrixRows, 4 * kStripRows);
  config.set(EB_LOW_SUMS, kMatrixRows, 4 * kStripRows);
  config.set(EB_HIGH_SUMS_ODD, kMatrixRows, 4 * kStripRows);
  config.set(EB_LOW_SUMS_ODD, kMatrixRows, 4 * kStripRows);
  memory_is_seen();
  _tile_loadconfig(&config);
}

void end() { _tile_release(); }

// Low bytes, then high bytes, of columns in the order of the codes.
constexpr Order tile_order() {
  Order result{};
  for (int i = 0; i < 64; ++i) result.from[i] = (i < kGroupCols ? kLow : kHigh).from[i % 32 / 16 * 32 + i % 16];
  return result;
}

void pack(const ActGroup& act, PackedGroup* out, int row) {
  static constexpr Order kOrder = tile_order();
  const __m512i bytes = ordered(act.q, kOrder);
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->low[row]), _mm512_castsi512_si256(bytes));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out->high[row]), _mm512_extracti64x4_epi64(bytes, 1));
  out->scale[row] = act.scale;
  out->scaled_sum[row] = act.scaled_sum;
  out->sum[row] = act.sum;
  out->sum_low[row] = act.sum_low;
}

// Four rows a lane become four columns a lane: a transpose of 4 x 4 dwords.
inline void transpose_dwords(const __m512i* rows, __m512i* columns) {
  const __m512i ab = _mm512_unpacklo_epi32(rows[0], rows[1]), ab2 = _mm512_unpackhi_epi32(rows[0], rows[1]);
  const __m512i cd = _mm512_unpacklo_epi32(rows[2], rows[3]), cd2 = _mm512_unpackhi_epi32(rows[2], rows[3]);
  columns[0] = _mm512_unpacklo_epi64(ab, cd);
  columns[1] = _mm512_unpackhi_epi64(ab, cd);
  columns[2] = _mm512_unpacklo_epi64(ab2, cd2);
  columns[3] = _mm512_unpackhi_epi64(ab2, cd2);
}

template <int B>
void expand(const CodeBook& book, const Segment& part, int8_t* out) {
  constexpr int kQuad = 4 * kStripRows;
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(book.full ? book.zero : 0));
  for (int g = 0; g < part.groups; ++g, out += kByteGroup) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    __m512i codes[4], low_rows[4], high_rows[4];
    byte_codes<B, false>(part.lines, g * kLineBytes, codes);
    transpose_dwords(codes, low_rows);
    byte_codes<B, true>(part.lines, g * kLineBytes, codes);
    transpose_dwords(codes, high_rows);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512i first = _mm512_shuffle_i32x4(low_rows[j], high_rows[j], 0x44);
      const __m512i second = _mm512_shuffle_i32x4(low_rows[j], high_rows[j], 0xee);
      _mm512_storeu_si512(out + j * kQuad, _mm512_sub_epi8(first, zero));
      _mm512_storeu_si512(out + (4 + j) * kQuad, _mm512_sub_epi8(second, zero));
    }
  }
}

void any_expand(const CodeBook& book, const Segment& part, int8_t* out) {
  using Expand = void (*)(const CodeBook&, const Segment&, int8_t*);
  static constexpr Expand kExpand[kMaxPlanes] = {expand<1>, expand<2>, expand<3>, expand<4>,
                                                 expand<5>, expand<6>, expand<7>, expand<8>};
  kExpand[book.bits - 1](book, part, out);
}

// The sums of one scale group: 16 rows of x times 16 rows of W.
struct alignas(64) Sums {
  int32_t high[kTileValues], low[kTileValues];
};

// The products of a step, and then the sums of the step before go to memory: those of this one would be waited for.
#define EB_STEP(HIGH_SUMS, LOW_SUMS, HIGH_BEFORE, LOW_BEFORE)  \
  __asm__ volatile("" ::"r"(&before));                         \
  memory_is_seen();                                            \
  _tile_zero(HIGH_SUMS);                                       \
  _tile_zero(LOW_SUMS);                                        \
  _tile_loadd(EB_CODES, codes, 4 * kStripRows);                \
  _tile_loadd(EB_HIGH, high, kGroupCols);                      \
  _tile_dpbssd(HIGH_SUMS, EB_HIGH, EB_CODES);                  \
  _tile_loadd(EB_LOW, low, kGroupCols);                        \
  _tile_dpbusd(LOW_SUMS, EB_LOW, EB_CODES);                    \
  _tile_stored(HIGH_BEFORE, before.high, 4 * kStripRows);      \
  _tile_stored(LOW_BEFORE, before.low, 4 * kStripRows);        \
  memory_is_seen()

inline void multiply(int step, const int8_t* high, const uint8_t* low, const int8_t* codes, Sums& before) {
  if (step % 2 == 0) {
    EB_STEP(EB_HIGH_SUMS, EB_LOW_SUMS, EB_HIGH_SUMS_ODD, EB_LOW_SUMS_ODD);
  } else {
    EB_STEP(EB_HIGH_SUMS_ODD, EB_LOW_SUMS_ODD, EB_HIGH_SUMS, EB_LOW_SUMS);
  }
}

// The sums of the last step.
inline void store_last(int step, Sums& sums) {
  __asm__ volatile("" ::"r"(&sums));
  memory_is_seen();
  if (step % 2 == 0) {
    _tile_stored(EB_HIGH_SUMS, sums.high, 4 * kStripRows);
    _tile_stored(EB_LOW_SUMS, sums.low, 4 * kStripRows);
  } else {
    _tile_stored(EB_HIGH_SUMS_ODD, sums.high, 4 * kStripRows);
    _tile_stored(EB_LOW_SUMS_ODD, sums.low, 4 * kStripRows);
  }
  memory_is_seen();
}

// As `add_group` in strip.h, for row r of the tile.
template <Form kForm, bool kFull>
inline __m512 add_row(const CodeBook& book, const Sums& sums, int r, const PackedGroup& x, int part, __m512 s, __m512 m,
                      __m512 total) {
  const __m512i high = _mm512_load_si512(sums.high + r * kStripRows), low = _mm512_load_si512(sums.low + r * kStripRows);
  __m512 f = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
  if (!kFull) {
    const int32_t sum = kForm != Form::halves ? x.sum[r] : part == 0 ? x.sum_low[r] : x.sum[r] - x.sum_low[r];
    f = _mm512_fmadd_ps(f, _mm512_set1_ps(book.step), _mm512_set1_ps(-book.offset * static_cast<float>(sum)));
  }
  total = _mm512_fmadd_ps(f, _mm512_mul_ps(_mm512_set1_ps(x.scale[r]), s), total);
  if (kForm == Form::minimum) total = _mm512_fmadd_ps(_mm512_set1_ps(x.scaled_sum[r]), m, total);
  return total;
}

// One tile of rows; of `count` < 16 rows the others are computed from whatever is there, and dropped.
template <Form kForm, bool kFull>
void tile(const CodeBook& book, const int8_t* codes, int groups, const PackedGroup* x, int count, Scales scales,
          float* acc) {
  constexpr int kParts = kForm == Form::halves ? 2 : 1;
  __m512 total[kMatrixRows];
#pragma GCC unroll 16
  for (int r = 0; r < kMatrixRows; ++r) total[r] = r < count ? _mm512_loadu_ps(acc + r * kStripRows) : _mm512_setzero_ps();
  Sums sums[kBuffers];
  const int steps = groups * kParts;
  for (int step = 0; step < steps + kLag; ++step) {
    Sums& before = sums[(step + kBuffers - 1) % kBuffers];
    if (step < steps) {
      const PackedGroup& group = x[step / kParts];
      const int at = step % kParts * columns(kForm);
      multiply(step, group.high[0] + at, group.low[0] + at, codes + step * (kByteGroup / kParts), before);
    } else if (step == steps) {
      store_last(step - 1, before);
    }
    if (step < kLag) continue;
    const int done = step - kLag, g = done / kParts;
    const __m512 s = _mm512_loadu_ps(scales.s + done * kStripRows);
    const __m512 m = kForm == Form::minimum ? _mm512_loadu_ps(scales.m + g * kStripRows) : _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int r = 0; r < kMatrixRows; ++r)
      total[r] = add_row<kForm, kFull>(book, sums[done % kBuffers], r, x[g], done % kParts, s, m, total[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kMatrixRows; ++r)
    if (r < count) _mm512_storeu_ps(acc + r * kStripRows, total[r]);
}

void any_tiles(const CodeBook& book, const int8_t* codes, int first, int groups, PackedRows rows, int count,
               Scales scales, float* acc) {
  using Tile = void (*)(const CodeBook&, const int8_t*, int, const PackedGroup*, int, Scales, float*);
  static constexpr Tile kTile[3][2] = {{tile<Form::plain, false>, tile<Form::plain, true>},
                                       {tile<Form::minimum, false>, tile<Form::minimum, true>},
                                       {tile<Form::halves, false>, tile<Form::halves, true>}};
  const Tile chosen = kTile[static_cast<int>(book.form)][book.full];
  for (int row = 0; row < count; row += kMatrixRows) {
    const int here = count - row < kMatrixRows ? count - row : kMatrixRows;
    chosen(book, codes, groups, rows.at(row, first), here, scales, acc + row * kStripRows);
  }
}

}  // namespace
}  // namespace EB_ISA

const MatrixKernels kMatrixAmx = {EB_ISA::pack, EB_ISA::any_expand, EB_ISA::any_tiles, EB_ISA::begin, EB_ISA::end};

}  // namespace eb
#endif
