#include "attention_chunk.h"

namespace eb {

const AttentionKernels kAttentionAvx2 = EB_ISA::kAttentionKernels;

}  // namespace eb
