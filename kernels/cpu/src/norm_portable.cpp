#include "norm_rows.h"

namespace eb {

const NormKernels kNormPortable = EB_ISA::kNormKernels;

}  // namespace eb
