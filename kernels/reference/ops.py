"""`Ops` in torch: the specification of the others, and what runs where the compiled library is missing."""

import torch

from ebbtide.kernels.ops import U8, WorkspaceShape
from ebbtide.kernels.reference.attention import attention
from ebbtide.kernels.reference.kv import kv_write
from ebbtide.kernels.reference.linear import embed, linear
from ebbtide.kernels.reference.moe import combine, glu, moe
from ebbtide.kernels.reference.norm import rmsnorm
from ebbtide.kernels.reference.program import ReferenceRecorder
from ebbtide.kernels.reference.rope import rope
from ebbtide.kernels.reference.router import router


class ReferenceOps:
    """All operations by plain torch on the caller's numpy buffers. Slow; needs no workspace of its own."""

    name = "reference"

    def __init__(self, threads: int) -> None:
        self.threads = threads
        torch.set_num_threads(threads)

    linear = staticmethod(linear)
    embed = staticmethod(embed)
    moe = staticmethod(moe)
    combine = staticmethod(combine)
    glu = staticmethod(glu)
    rmsnorm = staticmethod(rmsnorm)
    rope = staticmethod(rope)
    kv_write = staticmethod(kv_write)
    attention = staticmethod(attention)
    router = staticmethod(router)

    def recorder(self) -> ReferenceRecorder:
        """See `Ops.recorder`."""
        return ReferenceRecorder()

    def workspace_bytes(self, shape: WorkspaceShape) -> int:
        """See `Ops.workspace_bytes`: torch allocates for itself."""
        return 0

    def set_workspace(self, buffer: U8) -> None:
        """See `Ops.set_workspace`: nothing to keep."""
