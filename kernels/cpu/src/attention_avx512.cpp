// GCC 12 warns about its own header here (its "undefined" vectors are not initialised).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "attention_chunk.h"

namespace eb {

const AttentionKernels kAttentionAvx512 = EB_ISA::kAttentionKernels;

}  // namespace eb
