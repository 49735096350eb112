// Router: what an instruction set supplies.
#pragma once

#include <cstdint>

namespace eb {

constexpr int kMaxTopK = 16;

// Softmax over logits[0 .. experts - 1] (overwritten; room for a multiple of 16), the k largest first, equal logits in
// order of their index. NaN counts as -inf, +inf as the largest f32; a row with nothing above -inf becomes uniform.
using RouterSelect = void (*)(float* logits, int experts, int k, bool normalise, int32_t* idx, float* weights);

extern const RouterSelect kRouterSelectPortable;
#if defined(__x86_64__) || defined(_M_X64)
extern const RouterSelect kRouterSelectAvx2;
extern const RouterSelect kRouterSelectAvx512;
#endif

}  // namespace eb
