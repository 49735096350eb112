// How much of a block lies at each code: what the error of every width follows from, in one pass over the planes.
//
// For a matrix w = s * v(code) + m and moments e[column] (1 where there are none):
//
//     mass[code] = sum of e * s^2 over the weights with this code
//     energy     = sum of e * w^2 over all weights
//
// A narrower code book leaves s and m as they are, so whatever v_b stands for v at b bits, its error is
// sum of mass * (v - v_b)^2 over the codes, and the entries that make it least are means of v weighed by mass.
//
// Sums are double and their order follows from the shape alone: strips are cut into chunks that do not depend on the
// threads, chunks are added in order. Nothing here depends on the instruction set but the expansion of codes, which is
// exact.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "api.h"
#include "product.h"

using namespace eb;

namespace {

constexpr int kLanes = 2 * kStripRows;  // codes of two neighbouring columns: lane 2 * row + parity
constexpr int kPairs = kGroupCols / 2;
constexpr int kCopies = 4;  // an addition need not wait for one to the same code in the lane before
constexpr int kMostChunks = 32, kLeastStrips = 4;

struct Mass {
  double of_code[kMostEntries];
  double energy;
};

// Strips of one view to a chunk.
int chunk_strips(int strips) { return std::max(kLeastStrips, (strips + kMostChunks - 1) / kMostChunks); }
int chunks_of(int strips) { return (strips + chunk_strips(strips) - 1) / chunk_strips(strips); }

// The sums of one chunk.
class Tally {
 public:
  Tally() : mass_{}, energy_{} {}

  // `pairs` pairs of columns of 16 rows that have the squared scales `squares`.
  void add(const int16_t* codes, int pairs, const double* squares, const float* moments) {
    for (int i = 0; i < pairs; ++i, codes += kLanes, moments += 2) {
      double part[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) part[lane] = squares[lane / 2] * static_cast<double>(moments[lane % 2]);
      for (int lane = 0; lane < kLanes; lane += kCopies)
        for (int copy = 0; copy < kCopies; ++copy) mass_[copy][codes[lane + copy]] += part[lane + copy];
    }
  }

  // One group of weights scale * (code - zero) + minimum; float within a lane of the group.
  void add_energy(const int16_t* codes, const float* scale, const float* minimum, int zero, const float* moments) {
    float s[kLanes], m[kLanes], total[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) s[lane] = scale[lane / 2], m[lane] = minimum[lane / 2];
    for (int i = 0; i < kPairs; ++i, codes += kLanes, moments += 2) {
      float e[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) e[lane] = moments[lane % 2];
      for (int lane = 0; lane < kLanes; ++lane) {
        const float w = s[lane] * static_cast<float>(codes[lane] - zero) + m[lane];
        total[lane] += e[lane] * w * w;
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) energy_[lane] += static_cast<double>(total[lane]);
  }

  void store(Mass* out) const {
    for (int code = 0; code < kMostEntries; ++code) {
      out->of_code[code] = 0.0;
      for (int copy = 0; copy < kCopies; ++copy) out->of_code[code] += mass_[copy][code];
    }
    out->energy = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) out->energy += energy_[lane];
  }

 private:
  double mass_[kCopies][kMostEntries];
  double energy_[kLanes];
};

// The scales of a strip, those of rows beyond the matrix made 0.
void clear_padding(int valid, int rows_of_scales, float* scales) {
  for (int i = 0; i < rows_of_scales; ++i, scales += kStripRows) std::fill(scales + valid, scales + kStripRows, 0.0f);
}

void squares_of(const float* scales, double* out) {
  for (int row = 0; row < kStripRows; ++row) out[row] = static_cast<double>(scales[row]) * static_cast<double>(scales[row]);
}

class StripTally {
 public:
  StripTally(const LinearKernels& kernels, Cursor& cursor, const float* moments, const Scratch& scratch)
      : kernels_(kernels), cursor_(cursor), view_(cursor.view()), book_(view_, view_.planes, nullptr), moments_(moments), scratch_(scratch) {
    // Codes as they are.
    book_.zero = 0;
  }

  // False when a page of the block is absent.
  bool add(int strip, Tally* tally) {
    const uint8_t* meta = cursor_.meta(strip, scratch_.meta);
    if (meta == nullptr) return false;
    kernels_.decode_scales(view_.scale, meta, view_.groups(), {scratch_.s, scratch_.m});
    const int valid = std::min(kStripRows, view_.rows - strip * kStripRows);
    clear_padding(valid, view_.groups() * (book_.form == Form::halves ? 2 : 1), scratch_.s);
    if (book_.form == Form::minimum) clear_padding(valid, view_.groups(), scratch_.m);
    Segment part;
    for (int g = 0; g < view_.groups(); g += part.groups) {
      if (!cursor_.segment(strip, g, &part)) return false;
      part.groups = std::min(part.groups, kPanelGroups);
      kernels_.expand(book_, part, scratch_.codes);
      for (int i = 0; i < part.groups; ++i) add_group(scratch_.codes + i * kPairs * kLanes, g + i, tally);
    }
    return true;
  }

 private:
  void add_group(const int16_t* codes, int group, Tally* tally) const {
    const float* moments = moments_ == nullptr ? kOnes : moments_ + int64_t{group} * kGroupCols;
    const int parts = book_.form == Form::halves ? 2 : 1, pairs = kPairs / parts;
    for (int part = 0; part < parts; ++part) {
      double squares[kStripRows];
      squares_of(scratch_.s + (group * parts + part) * kStripRows, squares);
      tally->add(codes + part * pairs * kLanes, pairs, squares, moments + 2 * part * pairs);
    }
    if (book_.form != Form::minimum) return;
    const int at = group * kStripRows;
    tally->add_energy(codes, scratch_.s + at, scratch_.m + at, view_.zero, moments);
  }

  static constexpr float kOnes[kGroupCols] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const LinearKernels& kernels_;
  Cursor& cursor_;
  const View& view_;
  CodeBook book_;
  const float* moments_;
  const Scratch& scratch_;
};

void add_to(const Mass& part, double* mass, double* energy) {
  for (int code = 0; code < kMostEntries; ++code) mass[code] += part.of_code[code];
  *energy += part.energy;
}

}  // namespace

// mass[views][256] and energy[views] of block `index`, of which every plane has to be there; `moments` [cols] or null.
// The energy is that of matrices with minima; where there are none it is 0, for it follows from the masses.
EB_API int eb_code_mass(Context* context, const Block* block, int32_t index, const float* moments, double* mass,
                        double* energy) {
  if (index < 0 || index >= block->blocks) return kIndexOutOfRange;
  const LinearKernels& kernels = linear_kernels(context->isa);
  Carver carver(*context);
  const ScratchSet scratch(carver, *context, block->view[0].cols, 1);
  Mass* parts = carver.take<Mass>(kMostChunks);
  if (!carver.ok()) return kWorkspaceTooSmall;
  std::memset(mass, 0, sizeof(double) * kMostEntries * static_cast<size_t>(block->views));
  std::memset(energy, 0, sizeof(double) * static_cast<size_t>(block->views));
  std::atomic<bool> absent{false};
  for (int v = 0; v < block->views; ++v) {
    if (block->widths[index] < block->view[v].planes) return kAbsentBlock;
    const int strips = block->view[v].strips(), each = chunk_strips(strips);
    parallel_for(context->pool, chunks_of(strips), [&](int chunk, int worker) {
      Cursor cursor(*block, index, v);
      const Scratch room = scratch.of(worker);
      StripTally strip_tally(kernels, cursor, moments, room);
      Tally tally;
      for (int strip = chunk * each; strip < std::min(strips, (chunk + 1) * each); ++strip)
        if (!strip_tally.add(strip, &tally)) return absent.store(true);
      tally.store(parts + chunk);
    });
    if (absent) return kAbsentBlock;
    for (int chunk = 0; chunk < chunks_of(strips); ++chunk) add_to(parts[chunk], mass + v * kMostEntries, energy + v);
  }
  return kOk;
}

EB_API size_t eb_code_mass_workspace(const Context* context, int cols) {
  Carver carver = Carver::measure();
  ScratchSet(carver, *context, cols, 1);
  carver.take<Mass>(kMostChunks);
  return carver.used();
}
