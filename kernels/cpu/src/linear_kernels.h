// The inner kernels of plane matrices, one table per instruction set.
//
// Numbers: activations are int16 of at most `kMostActivation` per row and group of 32 columns, weights are b-bit integers v = code >> t. Per row of
// W and scale group, in increasing order, with one f32 accumulator and s, m from `decode_scales`:
//
//     iacc = sum v * q                                           (exact, int32)
//     f    = t == 0 ? float(iacc - zero * sum q) : fma(float(iacc), 2^t, -offset * float(sum q))
//     acc  = fma(f, a * s, acc);  with minima also  acc = fma(float(sum q) * a, m, acc)
//
// so that one row of x gives the same bits through `gemv` and through `tile`.
//
// Where the matrix has tables, those of its width make codes of eight bits of the b bits: v = table[code], t = 0.
#pragma once

#include <cstdint>

#include "block.h"
#include "isa.h"

namespace eb {

// 12 bits with the sign: rounding errors are a fifteenth of those of the usual 8 bits, and the matrix unit takes such
// activations and codes of up to four bits in one product, which needs (q + 128) >> 8 to be at most 7 (matrix_kernels.h).
constexpr int kMostActivation = 7 * 256 + 127;

// 32 columns of one row of x.
struct ActGroup {
  int16_t q[kGroupCols];
  float scale;
  float scaled_sum;  // float(sum) * scale
  int32_t sum;
  int32_t sum_low;  // of the first 16 columns
};

// How scales apply: one per 32 columns, one with a minimum, one per 16 columns.
enum class Form : int { plain = 0, minimum = 1, halves = 2 };

constexpr Form form_of(Scale scale) {
  if (scale == Scale::k8) return Form::halves;
  return scale == Scale::half_min || scale == Scale::k6 ? Form::minimum : Form::plain;
}

struct CodeBook {
  Form form;
  int bits;      // b
  int zero;
  bool full;     // t == 0: all planes are there, or a table makes up for those that are not
  float step;    // 2^t
  float offset;  // zero - (2^t - 1) / 2
  const uint8_t* table;  // null, or a byte for each code; scales are plain then

  CodeBook(const View& view, int width, const uint8_t* table)
      : form(form_of(view.scale)),
        bits(width),
        zero(view.zero),
        full(width == view.planes || table != nullptr),
        step(static_cast<float>(1 << (full ? 0 : view.planes - width))),
        offset(static_cast<float>(view.zero) - (step - 1.0f) * 0.5f),
        table(table) {}
};

// Scales of one strip: s[groups][16] (halves: [groups][2][16]) and m[groups][16] (minimum only).
struct Scales {
  float* s;
  float* m;
};

constexpr int kTileRows = 6;  // the most rows of x that `tile` takes

struct LinearKernels {
  void (*quantise)(const float* x, int cols, ActGroup* out);
  void (*decode_scales)(Scale scale, const uint8_t* meta, int groups, Scales out);
  // acc[16] += one row of x times `part.groups` groups of a strip; `act` and `scales` start at the first of them.
  void (*gemv)(const CodeBook& book, const Segment& part, const ActGroup* act, Scales scales, float* acc);
  // Codes of `part` as int16 [groups][16 column pairs][16 rows][2]; where `full`, `zero` is already taken off.
  void (*expand)(const CodeBook& book, const Segment& part, int16_t* out);
  // acc[count][16] += `count` (1..kTileRows) rows of x times expanded codes.
  void (*tile)(const CodeBook& book, const int16_t* codes, int groups, const ActGroup* const* rows, int count,
               Scales scales, float* acc);
  // 16 rows of 16 codes, `stride` apart, into half a line of every plane, at out[p] + at.
  void (*pack_half)(const uint8_t* codes, int64_t stride, int planes, uint8_t* const* out, int64_t at);
  // out[i] = act(gate[i]) * up[i]
  void (*glu)(int activation, const float* gate, const float* up, int count, float* out);
  // out[i] += sum over j in order of weights[j] * pair[j * stride + i]
  void (*combine)(const float* pair, int64_t stride, const float* weights, int k, int count, float* out);
};

extern const LinearKernels kLinearPortable;
#if defined(__x86_64__) || defined(_M_X64)
extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvxVnni;
extern const LinearKernels kLinearAvx512;
#endif

const LinearKernels& linear_kernels(Isa isa);

}  // namespace eb
