"""`Ops` by the compiled library."""

from ebbtide.kernels.cpu import attention_ops, linear_ops
from ebbtide.kernels.cpu.attention_ops import AttentionOps, attention_workspace_bytes
from ebbtide.kernels.cpu.library import Handle, check
from ebbtide.kernels.cpu.linear_ops import LinearOps, linear_workspace_bytes
from ebbtide.kernels.cpu.program import CpuRecorder
from ebbtide.kernels.ops import WorkspaceShape


class CpuOps(LinearOps, AttentionOps, Handle):
    """All operations on one instruction set with a fixed number of threads (the caller's is one of them).

    See `Handle` for systems that do not start so many.
    """

    def __init__(self, isa: str, threads: int, spin_us: int = 100) -> None:
        super().__init__(isa, threads, spin_us)
        linear_ops.declare(self._lib)
        attention_ops.declare(self._lib)
        self.name = isa

    def workspace_bytes(self, shape: WorkspaceShape) -> int:
        """See `Ops.workspace_bytes`."""
        linear = linear_workspace_bytes(self._context, shape)
        return max(linear, attention_workspace_bytes(shape, self.threads))

    def recorder(self) -> CpuRecorder:
        """See `Ops.recorder`."""
        return CpuRecorder(self)

    def _call(self, name: str, *arguments: object) -> None:
        check(getattr(self._lib, name)(self._context, *arguments))
