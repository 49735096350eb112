// A library of the emulated AVX-512 kernels alone: the other tables are empty.
#include "linear_kernels.h"
#include "matrix_kernels.h"

namespace eb {

const LinearKernels kLinearAvx2 = {};
const LinearKernels kLinearAvxVnni = {};
const LinearKernels kLinearPortable = {};
#if defined(__linux__)
const MatrixKernels kMatrixAmx = {};
#endif

}  // namespace eb
