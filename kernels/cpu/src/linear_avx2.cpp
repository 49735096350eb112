#if defined(__x86_64__) || defined(_M_X64)
#include "strip.h"

namespace eb {

const LinearKernels kLinearAvx2 = EB_ISA::kTable;

}  // namespace eb
#endif
