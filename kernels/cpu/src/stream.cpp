// How fast memory can be read: the roof that the plane kernels are measured against.
#include "context.h"

using namespace eb;

namespace {

constexpr size_t kPieceBytes = 1 << 16;

uint64_t sum_words(const uint64_t* words, size_t count) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8)
    for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

}  // namespace

// Reads whole pieces of `buffer` on all threads; the sum keeps the reads from being left out.
EB_API uint64_t eb_read_all(Context* context, const uint8_t* buffer, size_t bytes) {
  std::atomic<uint64_t> total{0};
  parallel_for(context->pool, static_cast<int>(bytes / kPieceBytes), [&](int piece, int) {
    const uint8_t* start = buffer + kPieceBytes * static_cast<size_t>(piece);
    total += sum_words(reinterpret_cast<const uint64_t*>(start), kPieceBytes / sizeof(uint64_t));
  });
  return total.load();
}
