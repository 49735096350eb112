#include "strip.h"

namespace eb {

const LinearKernels kLinearPortable = EB_ISA::kTable;

}  // namespace eb
