#include "attention_chunk.h"

namespace eb {

const AttentionKernels kAttentionPortable = EB_ISA::kAttentionKernels;

}  // namespace eb
