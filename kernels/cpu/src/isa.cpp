#include "isa.h"

#include <cstdint>

#if defined(_M_X64)
#include <intrin.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace eb {

#if defined(__x86_64__) || defined(_M_X64)
namespace {

struct Registers {
  uint32_t a, b, c, d;
};

// Zeros where the processor has no such leaf.
Registers cpuid(uint32_t leaf, uint32_t part = 0) {
  Registers r{};
#if defined(_M_X64)
  int words[4];
  __cpuid(words, 0);
  if (static_cast<uint32_t>(words[0]) < leaf) return r;
  __cpuidex(words, static_cast<int>(leaf), static_cast<int>(part));
  r = {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1]), static_cast<uint32_t>(words[2]),
       static_cast<uint32_t>(words[3])};
#else
  if (!__get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d)) return {};
#endif
  return r;
}

// The register states that the operating system saves.
uint64_t saved_states() {
#if defined(_M_X64)
  return _xgetbv(0);
#else
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
#endif
}

constexpr bool all(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

// Whether this process may use the tiles of AMX. Linux saves their 8 KiB for a thread only once it has been asked to.
bool may_use_tiles(const Registers& leaf7, uint64_t states) {
#if defined(__linux__)
  constexpr uint32_t kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr uint64_t kTileStates = 0x60000;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return all(leaf7.d, kTile | kInt8) && all(states, kTileStates) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  (void)leaf7, (void)states;
  return false;
#endif
}

}  // namespace

Isa best_isa() {
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  if (!all(cpuid(1).c, kFma | kOsxsave | kAvx | kF16c)) return Isa::portable;
  constexpr uint64_t kYmm = 0x6, kZmm = 0xe0;
  constexpr uint32_t kAvx2 = 1u << 5;
  const uint64_t states = saved_states();
  const Registers leaf7 = cpuid(7);
  if (!all(states, kYmm) || !all(leaf7.b, kAvx2)) return Isa::portable;
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kVbmi = 1u << 1, kGfni = 1u << 8, kVnni = 1u << 11;
  constexpr uint32_t kAvxVnni = 1u << 4;  // of leaf 7.1
  const bool wide = all(leaf7.b, kF | kDq | kBw | kVl) && all(leaf7.c, kVbmi | kGfni | kVnni) && all(states, kZmm);
  if (!wide) return all(leaf7.c, kGfni) && all(cpuid(7, 1).a, kAvxVnni) ? Isa::avxvnni : Isa::avx2;
  return may_use_tiles(leaf7, states) ? Isa::amx : Isa::avx512;
}
#else
Isa best_isa() { return Isa::portable; }
#endif

}  // namespace eb
