// The experts of a mixture-of-experts layer: gate and up, activation, down, for the chosen experts.
//
// Two parallel regions. The first turns rows of x into quantised hidden rows: a work item is 32 hidden columns, i.e.
// two strips of gate and two of up, so that an item ends in whole groups of `down`'s input. The second is `down`.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "api.h"
#include "pairs.h"
#include "product.h"

using namespace eb;

namespace {

constexpr int kItemStrips = kGroupCols / kStripRows;

struct Moe {
  const Block& gate_up;
  const Block& down;
  const float* x;      // [rows][cols]
  const int32_t* idx;  // [rows][top_k]
  const uint8_t* chosen;
  float* out;  // [rows][top_k][out_cols]
  int rows, top_k, activation;

  int cols() const { return gate_up.view[0].cols; }
  int hidden() const { return gate_up.view[0].rows; }
  int hidden_groups() const { return hidden() / kGroupCols; }
  int pairs() const { return rows * top_k; }
};

// All arrays of a call, in the workspace.
struct Arrays {
  Pairs pairs;
  Chunks up_chunks, down_chunks;
  ActGroup* acts;             // [rows][cols / 32]
  const ActGroup** inputs;    // [pairs]
  ActGroup* hidden;           // [pairs][hidden / 32], in the order of `pairs`
  const ActGroup** hiddens;   // [pairs]
  ScratchSet scratch;
  size_t value_count;
  float* values;  // per worker: gate, then up, of some items
  int32_t* tiles = nullptr;  // [experts]: the first packed tile of each
  PackedRows packed_inputs, packed_hidden;

  Arrays(Carver& carver, const Context& context, const Moe& call)
      : pairs(carver, call.gate_up.blocks, call.pairs()),
        up_chunks(carver, call.gate_up.blocks, call.hidden_groups()),
        down_chunks(carver, call.gate_up.blocks, call.down.view[0].strips()),
        acts(carver.take<ActGroup>(static_cast<size_t>(call.rows) * (call.cols() / kGroupCols))),
        inputs(carver.take<const ActGroup*>(call.pairs())),
        hidden(carver.take<ActGroup>(static_cast<size_t>(call.pairs()) * call.hidden_groups())),
        hiddens(carver.take<const ActGroup*>(call.pairs())),
        scratch(carver, context, std::max(call.cols(), call.hidden()), call.rows),
        value_count(size_t{2 * kGroupCols} * std::max(call.rows, call.hidden_groups())),
        values(carver.take<float>(value_count * static_cast<size_t>(context.pool.threads()))) {
    if (!Kernels(context.isa).packs(call.pairs())) return;
    // Every expert that is packed has a tile that may not be full.
    const int most_packed = std::min(call.gate_up.blocks, call.pairs() / kLeastMatrixRows);
    const size_t count = static_cast<size_t>(call.pairs() / kMatrixRows + most_packed);
    tiles = carver.take<int32_t>(call.gate_up.blocks);
    packed_inputs.groups = call.cols() / kGroupCols;
    packed_inputs.data = carver.take<PackedGroup>(count * packed_inputs.groups);
    packed_hidden.groups = call.hidden_groups();
    packed_hidden.data = carver.take<PackedGroup>(count * packed_hidden.groups);
  }
};

class MoeRun {
 public:
  MoeRun(Context& context, const Moe& call, Arrays& arrays)
      : context_(context), kernels_(context.isa), call_(call), arrays_(arrays) {}

  int run() {
    prepare();
    parallel_for(context_.pool, arrays_.up_chunks.count, [&](int chunk, int worker) { up_chunk(chunk, worker); });
    if (absent_) return kAbsentBlock;
    parallel_for(context_.pool, arrays_.down_chunks.count, [&](int chunk, int worker) { down_chunk(chunk, worker); });
    return absent_ ? kAbsentBlock : kOk;
  }

 private:
  void prepare() {
    const int groups = call_.cols() / kGroupCols, experts = call_.gate_up.blocks, threads = context_.pool.threads();
    quantise_rows(context_, kernels_, call_.x, call_.cols(), call_.rows, call_.cols(), arrays_.acts);
    for (int p = 0; p < arrays_.pairs.start[experts]; ++p) {
      arrays_.inputs[p] = arrays_.acts + static_cast<int64_t>(arrays_.pairs.pair[p] / call_.top_k) * groups;
      arrays_.hiddens[p] = arrays_.hidden + static_cast<int64_t>(p) * call_.hidden_groups();
    }
    arrays_.up_chunks.fill(arrays_.pairs, experts, threads);
    arrays_.down_chunks.fill(arrays_.pairs, experts, threads);
    if (arrays_.tiles != nullptr) pack_inputs();
  }

  void pack_inputs() {
    const int experts = call_.gate_up.blocks;
    int tile = 0;
    for (int e = 0; e < experts; ++e) {
      arrays_.tiles[e] = tile;
      if (kernels_.packs(arrays_.pairs.of(e))) tile += PackedRows::tiles(arrays_.pairs.of(e));
    }
    parallel_for(context_.pool, experts, [&](int e, int) {
      const Rows rows = rows_of(e, arrays_.inputs, arrays_.packed_inputs);
      for (int r = 0; rows.packed.data != nullptr && r < rows.count; ++r)
        for (int g = 0; g < rows.packed.groups; ++g) 
          kernels_.matrix->pack(rows.row[r][g], rows.packed.at(r, g), r % kMatrixRows);
    });
  }

  // The rows of an expert, which lie in `all` in the order of the pairs.
  Rows rows_of(int expert, const ActGroup* const* all, PackedRows packed) const {
    const int count = arrays_.pairs.of(expert);
    if (arrays_.tiles != nullptr && kernels_.packs(count))
      packed.data = packed.at(arrays_.tiles[expert] * kMatrixRows, 0);
    else
      packed.data = nullptr;
    return {all + arrays_.pairs.start[expert], count, packed};
  }

  // Several items at a time where the rows are few, so that the strips of one view are read in order.
  void up_chunk(int chunk, int worker) {
    const int expert = arrays_.up_chunks.expert[chunk], count = arrays_.pairs.of(expert);
    const int end = arrays_.up_chunks.end(chunk), piece = std::max(1, call_.hidden_groups() / count);
    float* gate = arrays_.values + arrays_.value_count * static_cast<size_t>(worker);
    float* up = gate + arrays_.value_count / 2;
    Cursor gates(call_.gate_up, expert, 0), ups(call_.gate_up, expert, 1);
    MatrixUnit unit(kernels_.matrix);
    for (int begin = arrays_.up_chunks.begin[chunk]; begin < end; begin += piece) {
      const int items = std::min(piece, end - begin);
      if (!strips(unit, gates, expert, begin, items, worker, gate)) return;
      if (!strips(unit, ups, expert, begin, items, worker, up)) return;
      for (int item = 0; item < items; ++item) activate(expert, begin, item, gate, up);
    }
  }

  // values[strip][pair of the expert][16] for the strips of `items` items.
  bool strips(MatrixUnit& unit, Cursor& cursor, int expert, int begin, int items, int worker, float* values) {
    const Rows rows = rows_of(expert, arrays_.inputs, arrays_.packed_inputs);
    Scratch scratch = arrays_.scratch.of(worker);
    for (int i = 0; i < items * kItemStrips; ++i) {
      scratch.acc = values + static_cast<int64_t>(i) * rows.count * kStripRows;
      if (!product(unit, cursor, begin * kItemStrips + i, rows, scratch)) return false;
    }
    return true;
  }

  void activate(int expert, int begin, int item, const float* gate, const float* up) {
    const int start = arrays_.pairs.start[expert], count = arrays_.pairs.of(expert), group = begin + item;
    const PackedRows packed = rows_of(expert, arrays_.hiddens, arrays_.packed_hidden).packed;
    for (int r = 0; r < count; ++r) {
      float values[kGroupCols];
      for (int s = 0; s < kItemStrips; ++s) {
        const int64_t at = (static_cast<int64_t>(item * kItemStrips + s) * count + r) * kStripRows;
        kernels_.strip.glu(call_.activation, gate + at, up + at, kStripRows, values + s * kStripRows);
      }
      ActGroup* unpacked = arrays_.hidden + int64_t{start + r} * call_.hidden_groups() + group;
      if (packed.data != nullptr)
        kernels_.matrix->quantise(values, 1, packed.at(r, group), r % kMatrixRows);
      else
        kernels_.strip.quantise(values, kGroupCols, unpacked);
    }
  }

  void down_chunk(int chunk, int worker) {
    const int expert = arrays_.down_chunks.expert[chunk], end = arrays_.down_chunks.end(chunk);
    const int start = arrays_.pairs.start[expert];
    const Rows rows = rows_of(expert, arrays_.hiddens, arrays_.packed_hidden);
    const Scratch scratch = arrays_.scratch.of(worker);
    Cursor cursor(call_.down, expert, 0);
    MatrixUnit unit(kernels_.matrix);
    for (int strip = arrays_.down_chunks.begin[chunk]; strip < end; ++strip) {
      if (!product(unit, cursor, strip, rows, scratch)) return;
      for (int r = 0; r < rows.count; ++r) write(arrays_.pairs.pair[start + r], strip, scratch.acc + r * kStripRows);
    }
  }

  void write(int pair, int strip, const float* acc) {
    const int out_cols = call_.down.view[0].rows, valid = out_cols - strip * kStripRows;
    float* out = call_.out + static_cast<int64_t>(pair) * out_cols + strip * kStripRows;
    if (valid >= kStripRows)
      std::memcpy(out, acc, kStripRows * sizeof(float));  // of a known size: moved without a call
    else
      std::memcpy(out, acc, static_cast<size_t>(valid) * sizeof(float));
  }

  bool product(MatrixUnit& unit, Cursor& cursor, int strip, const Rows& rows, const Scratch& scratch) {
    if (strip_product(kernels_, unit, cursor, strip, rows, scratch)) return true;
    absent_.store(true);
    return false;
  }

  Context& context_;
  const Kernels kernels_;
  const Moe& call_;
  Arrays& arrays_;
  std::atomic<bool> absent_{false};
};

bool shapes_match(const Block& gate_up, const Block& down) {
  const View* view = gate_up.view;
  return gate_up.views == 2 && down.views == 1 && view[0].rows == view[1].rows && view[0].rows == down.view[0].cols &&
         view[0].cols == view[1].cols && gate_up.blocks == down.blocks;
}

}  // namespace

EB_API int eb_moe(Context* context, const Block* gate_up, const Block* down, const float* x, const int32_t* idx,
                  const uint8_t* chosen, float* out, int rows, int top_k, int activation) {
  if (rows <= 0) return kOk;
  if (!shapes_match(*gate_up, *down)) return kBadArgument;
  const Moe call{*gate_up, *down, x, idx, chosen, out, rows, top_k, activation};
  Carver carver(*context);
  Arrays arrays(carver, *context, call);
  if (!carver.ok()) return kWorkspaceTooSmall;
  if (!arrays.pairs.fill(idx, call.pairs(), chosen, gate_up->blocks)) return kIndexOutOfRange;
  for (int e = 0; e < gate_up->blocks; ++e) {
    if (arrays.pairs.of(e) > rows) return kIndexOutOfRange;  // a row names an expert twice
    if (arrays.pairs.of(e) > 0 && (gate_up->widths[e] == 0 || down->widths[e] == 0)) return kAbsentBlock;
  }
  return MoeRun(*context, call, arrays).run();
}

EB_API size_t eb_moe_workspace(const Context* context, int rows, int cols, int experts, int top_k, int hidden) {
  Block gate_up{}, down{};
  gate_up.blocks = experts;
  gate_up.view[0].rows = hidden;
  gate_up.view[0].cols = down.view[0].rows = cols;
  Carver carver = Carver::measure();
  Arrays(carver, *context, {gate_up, down, nullptr, nullptr, nullptr, nullptr, rows, top_k, 0});
  return carver.used();
}
