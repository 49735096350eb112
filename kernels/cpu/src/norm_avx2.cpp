#include "norm_rows.h"

namespace eb {

const NormKernels kNormAvx2 = EB_ISA::kNormKernels;

}  // namespace eb
