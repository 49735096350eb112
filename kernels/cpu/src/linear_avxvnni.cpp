// AVX2 with AVX-VNNI and GFNI: processors for laptops and desktops that have no AVX-512.
#if defined(__x86_64__) || defined(_M_X64)
#define EB_AVXVNNI
#include "strip.h"

namespace eb {

const LinearKernels kLinearAvxVnni = EB_ISA::kTable;

}  // namespace eb
#endif
