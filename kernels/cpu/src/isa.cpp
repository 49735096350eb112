#include "isa.h"

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

namespace eb {

#if defined(__x86_64__) || defined(_M_X64)
namespace {

// The register states that the operating system saves (xgetbv 0).
uint64_t saved_states() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

constexpr bool all(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

}  // namespace

Isa best_isa() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::portable;
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  if (!all(c, kFma | kOsxsave | kAvx | kF16c)) return Isa::portable;
  const uint64_t states = saved_states();
  if ((states & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Isa::portable;
  if (!all(b, 1u << 5)) return Isa::portable;  // AVX2
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kVbmi = 1u << 1, kVnni = 1u << 11;
  const bool wide = all(b, kF | kDq | kBw | kVl) && all(c, kVbmi | kVnni) && (states & 0xe0) == 0xe0;
  return wide ? Isa::avx512 : Isa::avx2;
}
#else
Isa best_isa() { return Isa::portable; }
#endif

}  // namespace eb
