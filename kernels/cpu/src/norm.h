// What an instruction set supplies for RMS norm and router.
#pragma once

#include <cstdint>

#include "isa.h"

namespace eb {

struct NormKernels {
  // out = x / sqrt(mean(x^2) + eps) * weight over d columns; out may be x.
  void (*rmsnorm_row)(const float* x, const float* weight, int64_t d, float eps, float* out);
  float (*dot)(const float* x, const float* w, int64_t d);
};

const NormKernels& norm_kernels(Isa isa);

extern const NormKernels kNormPortable;
#if defined(__x86_64__) || defined(_M_X64)
extern const NormKernels kNormAvx2;
extern const NormKernels kNormAvx512;
#endif

}  // namespace eb
