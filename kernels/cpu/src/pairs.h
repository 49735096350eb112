// Who computes what in a mixture-of-experts layer: (row, choice) pairs by expert, and chunks of an expert's work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "context.h"

namespace eb {

// The pairs of the chosen experts, expert by expert, rows in order. A pair is row * top_k + choice.
struct Pairs {
  int32_t* start;  // [experts + 1]
  int32_t* pair;   // [pairs]

  Pairs(Carver& carver, int experts, int pairs)
      : start(carver.take<int32_t>(static_cast<size_t>(experts) + 1)), pair(carver.take<int32_t>(pairs)) {}

  int of(int expert) const { return start[expert + 1] - start[expert]; }

  // False when an index is not an expert.
  bool fill(const int32_t* idx, int count, const uint8_t* chosen, int experts) {
    std::memset(start, 0, sizeof(int32_t) * (static_cast<size_t>(experts) + 1));
    for (int i = 0; i < count; ++i) {
      if (idx[i] < 0 || idx[i] >= experts) return false;
      if (chosen[idx[i]] != 0) ++start[idx[i] + 1];
    }
    for (int e = 0; e < experts; ++e) start[e + 1] += start[e];
    for (int i = 0; i < count; ++i)
      if (chosen[idx[i]] != 0) pair[start[idx[i]]++] = i;
    std::memmove(start + 1, start, sizeof(int32_t) * static_cast<size_t>(experts));
    start[0] = 0;
    return true;
  }
};

// Equal chunks of the work items of every expert that has pairs.
struct Chunks {
  int32_t* expert;
  int32_t* begin;
  int count = 0, size = 1, items;

  Chunks(Carver& carver, int experts, int items_each)
      : expert(carver.take<int32_t>(static_cast<size_t>(experts) * items_each)),
        begin(carver.take<int32_t>(static_cast<size_t>(experts) * items_each)),
        items(items_each) {}

  int end(int chunk) const { return std::min(begin[chunk] + size, items); }

  void fill(const Pairs& pairs, int experts, int threads) {
    int active = 0;
    for (int e = 0; e < experts; ++e) active += pairs.of(e) > 0;
    size = std::max(1, static_cast<int>(int64_t{items} * active / (threads * std::max(4, active))));
    for (int e = 0; e < experts; ++e)
      for (int at = 0; pairs.of(e) > 0 && at < items; at += size, ++count) {
        expert[count] = e;
        begin[count] = at;
      }
  }
};

}  // namespace eb
