// A library of the emulated AVX-512 kernels alone: the other tables are empty.
#include "linear_kernels.h"

namespace eb {

const LinearKernels kLinearAvx2 = {};
const LinearKernels kLinearPortable = {};

}  // namespace eb
