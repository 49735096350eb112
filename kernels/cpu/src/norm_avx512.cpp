// GCC 12 warns about its own header here (its "undefined" vectors are not initialised).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "norm_rows.h"

namespace eb {

const NormKernels kNormAvx512 = EB_ISA::kNormKernels;

}  // namespace eb
