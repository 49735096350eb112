"""The compiled attention half of `Ops`, with exactly the workspace that it asks for and a guard behind it."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ebbtide.kernels.cpu.attention_ops import attention_workspace_bytes
from ebbtide.kernels.cpu.library import ISAS, best_isa
from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.ops import WorkspaceShape

GUARD_BYTES = 4096
GUARD_VALUE = 0xA5


def isas() -> list[str]:
    """Instruction sets that this machine can run."""
    return list(ISAS[: ISAS.index(best_isa()) + 1])


def workspace_shape(*, rows: int = 1, heads: int = 1, head_dim: int = 16, experts: int = 0) -> WorkspaceShape:
    """A shape whose other sizes do not matter to these operations."""
    return WorkspaceShape(rows, 1, 1, experts, 1, 1, 1, heads, head_dim)


@contextmanager
def compiled(isa: str, threads: int, shape: WorkspaceShape) -> Iterator[CpuOps]:
    """Kernels with a workspace of just `attention_workspace_bytes`; fails if they wrote behind it."""
    needed = attention_workspace_bytes(shape, threads)
    buffer = np.full(needed + GUARD_BYTES, GUARD_VALUE, np.uint8)
    kernels = CpuOps(isa, threads, spin_us=0)
    kernels.set_workspace(buffer[:needed])
    try:
        yield kernels
    finally:
        kernels.close()
    assert (buffer[needed:] == GUARD_VALUE).all(), "the kernel wrote behind its workspace"
