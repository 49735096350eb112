// The tiles of AMX: 16 rows of x times 16 rows of W, 32 columns at a time.
//
// The unit needs 16 cycles for a product of up to 64 columns. Moving its sums through memory and turning them into
// floats takes longer, so that is what counts here: 16 accumulators stay in registers over all groups of a panel.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(__linux__) && defined(__x86_64__)
#include <cstring>

#include "byte_codes.h"
#include "look_up_x86.h"
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

void begin(const CodeBook& book) {
  const int bytes = is_few(book) ? 2 * kGroupCols : columns(book.form);
  TileConfig config;
  __asm__ volatile("" ::"r"(&config));
  config.set(EB_HIGH, kMatrixRows, bytes);
  config.set(EB_LOW, kMatrixRows, bytes);
  config.set(EB_CODES, bytes / 4, 4 * kStripRows);
  config.set(EB_HIGH_SUMS, kMatrixRows, 4 * kStripRows);
  config.set(EB_LOW_SUMS, kMatrixRows, 4 * kStripRows);
  config.set(EB_HIGH_SUMS_ODD, kMatrixRows, 4 * kStripRows);
  config.set(EB_LOW_SUMS_ODD, kMatrixRows, 4 * kStripRows);
  memory_is_seen();
  _tile_loadconfig(&config);
}

void end() { _tile_release(); }

// High bytes, then low bytes, of columns in the order of the codes.
constexpr Order tile_order() {
  Order result{};
  for (int i = 0; i < 64; ++i) result.from[i] = (i < kGroupCols ? kHigh : kLow).from[i % 32 / 16 * 32 + i % 16];
  return result;
}

// The same from words as `packs_epi32` leaves them: four columns of the first half, four of the second, and so on.
constexpr Order tile_order_of_packed() {
  Order result = tile_order();
  for (uint8_t& byte : result.from) {
    const int column = byte / 2, within = column % 16;
    byte = static_cast<uint8_t>(2 * (within / 4 * 8 + column / 16 * 4 + within % 4) + byte % 2);
  }
  return result;
}

// One row of a tile, of words that are in any order.
inline void put_row(__m512i q, const Order& order, const ActGroup& act, PackedGroup* out, int row) {
  // q rounded to 256s is 16 * high; what is left of it is its low byte as a signed one.
  const __m512i high = _mm512_slli_epi16(_mm512_srai_epi16(_mm512_add_epi16(q, _mm512_set1_epi16(128)), 8), 12);
  const __m512i low = _mm512_and_si512(q, _mm512_set1_epi16(0xff));
  _mm512_store_si512(out->parts[row], _mm512_permutexvar_epi8(_mm512_load_si512(order.from), _mm512_or_si512(high, low)));
  out->scale[row] = act.scale;
  out->scaled_sum[row] = act.scaled_sum;
  out->sum[row] = act.sum;
  out->sum_low[row] = act.sum_low;
}

void pack(const ActGroup& act, PackedGroup* out, int row) {
  static constexpr Order kOrder = tile_order();
  put_row(_mm512_loadu_si512(act.q), kOrder, act, out, row);
}

// As `quantise_group` in elementwise.h, and packed.
inline void quantise_group(const float* x, PackedGroup* out, int row) {
  static constexpr Order kOrder = tile_order_of_packed();
  const F32 first = load(x), second = load(x + kGroupCols / 2);
  const float amax = largest(max(abs(first), abs(second)));
  constexpr float kMost = kMostActivation;
  const F32 inverse = splat(amax == 0.0f ? 0.0f : kMost / amax);
  const auto whole = [&](F32 part) { return _mm512_cvtps_epi32(min(max(part * inverse, splat(-kMost)), splat(kMost)).v); };
  const __m512i q = _mm512_packs_epi32(whole(first), whole(second));
  // In every 128 bits two sums of the first half and two of the second.
  const __m512i sums = _mm512_madd_epi16(q, _mm512_set1_epi16(1));
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i both = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  ActGroup act;
  act.scale = amax / kMost;
  act.sum_low = _mm_cvtsi128_si32(both);
  act.sum = act.sum_low + _mm_extract_epi32(both, 2);
  act.scaled_sum = static_cast<float>(act.sum) * act.scale;
  put_row(q, kOrder, act, out, row);
}

void quantise(const float* x, int groups, PackedGroup* out, int row) {
  for (int g = 0; g < groups; ++g) quantise_group(x + g * kGroupCols, out + g, row);
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

// Codes of 16 rows and 32 columns, column quad by column quad, into `to`.
template <int B, typename Look>
inline void quads(const uint8_t* const* lines, int offset, __m512i zero, const Look& look, __m512i* to) {
  __m512i codes[4], low_rows[4], high_rows[4];
  byte_codes<B, false>(lines, offset, codes);
  for (__m512i& values : codes) values = look(values);
  transpose_dwords(codes, low_rows);
  byte_codes<B, true>(lines, offset, codes);
  for (__m512i& values : codes) values = look(values);
  transpose_dwords(codes, high_rows);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    to[j] = _mm512_sub_epi8(_mm512_shuffle_i32x4(low_rows[j], high_rows[j], 0x44), zero);
    to[4 + j] = _mm512_sub_epi8(_mm512_shuffle_i32x4(low_rows[j], high_rows[j], 0xee), zero);
  }
}

template <int B, typename Look>
void expand(const CodeBook& book, const Segment& part, int8_t* out) {
  const Look look(book.table);
  constexpr int kQuads = kGroupCols / 4, kQuad = 4 * kStripRows;
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(book.full ? book.zero : 0));
  const bool few = B <= kFewBits && is_few(book);
  for (int g = 0; g < part.groups; ++g) {
    prefetch_lines<B>(part.lines, g * kLineBytes);
    __m512i codes[kQuads];
    quads<B>(part.lines, g * kLineBytes, zero, look, codes);
    if (few) {
#pragma GCC unroll 8
      for (int j = 0; j < kQuads; ++j)
        _mm512_storeu_si512(out + j * kQuad, _mm512_and_si512(_mm512_slli_epi16(codes[j], 4), _mm512_set1_epi8(-16)));
      out += kByteGroup;
    }
#pragma GCC unroll 8
    for (int j = 0; j < kQuads; ++j) _mm512_storeu_si512(out + j * kQuad, codes[j]);
    out += kByteGroup;
  }
}

void any_expand(const CodeBook& book, const Segment& part, int8_t* out) {
  using Expand = void (*)(const CodeBook&, const Segment&, int8_t*);
  static constexpr Expand kExpand[kMaxPlanes] = {expand<1, AsIs>, expand<2, AsIs>, expand<3, AsIs>, expand<4, AsIs>,
                                                 expand<5, AsIs>, expand<6, AsIs>, expand<7, AsIs>, expand<8, AsIs>};
  static constexpr Expand kExpandTable[kMaxPlanes] = {
      expand<1, ByteTable<1>>, expand<2, ByteTable<2>>, expand<3, ByteTable<3>>, expand<4, ByteTable<4>>,
      expand<5, ByteTable<5>>, expand<6, ByteTable<6>>, expand<7, ByteTable<7>>, expand<8, ByteTable<8>>};
  (book.table == nullptr ? kExpand : kExpandTable)[book.bits - 1](book, part, out);
}

// How the codes of a book are multiplied: see matrix_kernels.h.
enum class Product { few_signed, few_unsigned, many };

// The sums of one scale group: 16 rows of x times 16 rows of W. Few bits: all in `low`.
struct alignas(64) Sums {
  int32_t low[kTileValues], high[kTileValues];
};

// The products of a step, and then the sums of the step before go to memory: those of this one would be waited for.
#define EB_STEP_FEW(PRODUCT, SUMS, BEFORE)          \
  __asm__ volatile("" ::"r"(&before));              \
  memory_is_seen();                                 \
  _tile_zero(SUMS);                                 \
  _tile_loadd(EB_CODES, codes, 4 * kStripRows);     \
  _tile_loadd(EB_HIGH, parts, 2 * kGroupCols);      \
  PRODUCT(SUMS, EB_HIGH, EB_CODES);                 \
  _tile_stored(BEFORE, before.low, 4 * kStripRows); \
  memory_is_seen()

#define EB_STEP_MANY(HIGH_SUMS, LOW_SUMS, HIGH_BEFORE, LOW_BEFORE) \
  __asm__ volatile("" ::"r"(&before));                             \
  memory_is_seen();                                                \
  _tile_zero(HIGH_SUMS);                                           \
  _tile_zero(LOW_SUMS);                                            \
  _tile_loadd(EB_CODES, codes, 4 * kStripRows);                    \
  _tile_loadd(EB_HIGH, parts, 2 * kGroupCols);                     \
  _tile_dpbssd(HIGH_SUMS, EB_HIGH, EB_CODES);                      \
  _tile_loadd(EB_LOW, parts + kGroupCols, 2 * kGroupCols);         \
  _tile_dpbssd(LOW_SUMS, EB_LOW, EB_CODES);                        \
  _tile_stored(HIGH_BEFORE, before.high, 4 * kStripRows);          \
  _tile_stored(LOW_BEFORE, before.low, 4 * kStripRows);            \
  memory_is_seen()

template <Product kProduct>
inline void multiply(int step, const int8_t* parts, const int8_t* codes, Sums& before) {
  if (kProduct == Product::few_signed && step % 2 == 0) {
    EB_STEP_FEW(_tile_dpbssd, EB_LOW_SUMS, EB_LOW_SUMS_ODD);
  } else if (kProduct == Product::few_signed) {
    EB_STEP_FEW(_tile_dpbssd, EB_LOW_SUMS_ODD, EB_LOW_SUMS);
  } else if (kProduct == Product::few_unsigned && step % 2 == 0) {
    EB_STEP_FEW(_tile_dpbsud, EB_LOW_SUMS, EB_LOW_SUMS_ODD);
  } else if (kProduct == Product::few_unsigned) {
    EB_STEP_FEW(_tile_dpbsud, EB_LOW_SUMS_ODD, EB_LOW_SUMS);
  } else if (step % 2 == 0) {
    EB_STEP_MANY(EB_HIGH_SUMS, EB_LOW_SUMS, EB_HIGH_SUMS_ODD, EB_LOW_SUMS_ODD);
  } else {
    EB_STEP_MANY(EB_HIGH_SUMS_ODD, EB_LOW_SUMS_ODD, EB_HIGH_SUMS, EB_LOW_SUMS);
  }
}

// The sums of the last step.
template <Product kProduct>
inline void store_last(int step, Sums& sums) {
  __asm__ volatile("" ::"r"(&sums));
  memory_is_seen();
  if (step % 2 == 0) {
    _tile_stored(EB_LOW_SUMS, sums.low, 4 * kStripRows);
    if (kProduct == Product::many) _tile_stored(EB_HIGH_SUMS, sums.high, 4 * kStripRows);
  } else {
    _tile_stored(EB_LOW_SUMS_ODD, sums.low, 4 * kStripRows);
    if (kProduct == Product::many) _tile_stored(EB_HIGH_SUMS_ODD, sums.high, 4 * kStripRows);
  }
  memory_is_seen();
}

template <Product kProduct>
inline __m512i sums_of_row(const Sums& sums, int r) {
  const __m512i low = _mm512_load_si512(sums.low + r * kStripRows);
  if (kProduct != Product::many) return low;
  return _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(sums.high + r * kStripRows), 4), low);
}

// As `add_group` in strip.h, for row r of the tile.
template <Form kForm, bool kFull>
inline __m512 add_row(const CodeBook& book, __m512i sums, int r, const PackedGroup& x, int part, __m512 s, __m512 m,
                      __m512 total) {
  __m512 f = _mm512_cvtepi32_ps(sums);
  if (!kFull) {
    const int32_t sum = kForm != Form::halves ? x.sum[r] : part == 0 ? x.sum_low[r] : x.sum[r] - x.sum_low[r];
    f = _mm512_fmadd_ps(f, _mm512_set1_ps(book.step), _mm512_set1_ps(-book.offset * static_cast<float>(sum)));
  }
  total = _mm512_fmadd_ps(f, _mm512_mul_ps(_mm512_set1_ps(x.scale[r]), s), total);
  if (kForm == Form::minimum) total = _mm512_fmadd_ps(_mm512_set1_ps(x.scaled_sum[r]), m, total);
  return total;
}

// One tile of rows; of `count` < 16 rows the others are computed from whatever is there, and dropped.
template <Form kForm, bool kFull, Product kProduct>
void tile(const CodeBook& book, const int8_t* codes, int first, int groups, const PackedGroup* x, int count,
          Scales scales, float* acc) {
  constexpr int kParts = kForm == Form::halves ? 2 : 1;
  constexpr int kStepBytes = (kProduct == Product::many ? kByteGroup : 2 * kByteGroup) / kParts;
  __m512 total[kMatrixRows];
#pragma GCC unroll 16
  for (int r = 0; r < kMatrixRows; ++r)
    total[r] = first > 0 && r < count ? _mm512_loadu_ps(acc + r * kStripRows) : _mm512_setzero_ps();
  Sums sums[kBuffers];
  const int steps = groups * kParts;
  for (int step = 0; step < steps + kLag; ++step) {
    Sums& before = sums[(step + kBuffers - 1) % kBuffers];
    if (step < steps)
      multiply<kProduct>(step, x[step / kParts].parts[0] + step % kParts * columns(kForm), codes + step * kStepBytes,
                         before);
    else if (step == steps)
      store_last<kProduct>(step - 1, before);
    if (step < kLag) continue;
    const int done = step - kLag, g = done / kParts;
    const Sums& ready = sums[done % kBuffers];
    const __m512 s = _mm512_loadu_ps(scales.s + done * kStripRows);
    const __m512 m = kForm == Form::minimum ? _mm512_loadu_ps(scales.m + g * kStripRows) : _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int r = 0; r < kMatrixRows; ++r)
      total[r] = add_row<kForm, kFull>(book, sums_of_row<kProduct>(ready, r), r, x[g], done % kParts, s, m, total[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kMatrixRows; ++r)
    if (r < count) _mm512_storeu_ps(acc + r * kStripRows, total[r]);
}

using Tile = void (*)(const CodeBook&, const int8_t*, int, int, const PackedGroup*, int, Scales, float*);

template <Form kForm>
Tile tile_for(const CodeBook& book) {
  if constexpr (kForm != Form::halves) {
    const bool is_signed = book.full && book.zero > 0;
    if (is_few(book) && is_signed) return tile<kForm, true, Product::few_signed>;
    if (is_few(book)) return book.full ? tile<kForm, true, Product::few_unsigned> : tile<kForm, false, Product::few_unsigned>;
  }
  return book.full ? tile<kForm, true, Product::many> : tile<kForm, false, Product::many>;
}

void any_tiles(const CodeBook& book, const int8_t* codes, int first, int groups, PackedRows rows, int count,
               Scales scales, float* acc) {
  const Tile chosen = book.form == Form::plain     ? tile_for<Form::plain>(book)
                      : book.form == Form::minimum ? tile_for<Form::minimum>(book)
                                                   : tile_for<Form::halves>(book);
  for (int row = 0; row < count; row += kMatrixRows) {
    const int here = count - row < kMatrixRows ? count - row : kMatrixRows;
    chosen(book, codes, first, groups, rows.at(row, first), here, scales, acc + row * kStripRows);
  }
}

}  // namespace
}  // namespace EB_ISA

const MatrixKernels kMatrixAmx = {EB_ISA::quantise, EB_ISA::pack, EB_ISA::any_expand, EB_ISA::any_tiles, EB_ISA::begin, EB_ISA::end};

}  // namespace eb
#endif
