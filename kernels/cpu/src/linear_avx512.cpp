// GCC 12 warns about its own header here (its "undefined" vectors are not initialised).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include "strip.h"

namespace eb {

const LinearKernels kLinearAvx512 = EB_ISA::kTable;

}  // namespace eb
#endif
