// Single bits of a half line (32 bytes: 16 rows x 16 columns of one plane).
#pragma once

#include <cstdint>

namespace eb {

// Bytes 2 i and 2 i + 1 of a half line hold row kRowOfPair[i]. The order is its own inverse.
constexpr uint8_t kRowOfPair[16] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

// 8 x 8 bit transpose: bit 8 r + c goes to bit 8 c + r.
static inline uint64_t transpose_bits(uint64_t x) {
  uint64_t t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaull;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000cccc0000ccccull;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0ull;
  return x ^ t ^ (t << 28);
}

}  // namespace eb
