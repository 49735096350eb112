"""Recording operations once, to run them many times by a single call into the library."""

import ctypes
import struct

import numpy as np

from ebbtide.kernels.cpu.attention_ops import AttentionOps
from ebbtide.kernels.cpu.library import Handle, address, check
from ebbtide.kernels.cpu.linear_ops import LinearOps

OPERATIONS = (
    "eb_linear",
    "eb_moe",
    "eb_embed",
    "eb_glu",
    "eb_combine",
    "eb_rmsnorm",
    "eb_rope",
    "eb_kv_write",
    "eb_attention",
    "eb_router",
)
"""In the order of `run` in src/program.cpp."""
_WORDS = 13
"""An operation's number and room for 12 arguments."""


class CpuProgram:
    """See `Program`."""

    def __init__(self, handle: Handle, words: list[int], kept: object) -> None:
        self._handle, self._kept = handle, kept
        self._commands = np.array(words, np.uint64)
        self._run = handle.library.eb_run
        self._arguments = (handle.context, address(self._commands), len(words) // _WORDS)
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)

    def run(self) -> None:
        """See `Program.run`."""
        check(self._run(*self._arguments))


class CpuRecorder(LinearOps, AttentionOps):
    """See `Recorder`: operations are checked as usual, then written down instead of called."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._lib, self._context = handle.library, handle.context
        self._words: list[int] = []

    def program(self) -> CpuProgram:
        """See `Recorder.program`."""
        words, self._words = self._words, []
        return CpuProgram(self._handle, words, self)

    def _call(self, name: str, *arguments: object) -> None:
        self._words.append(OPERATIONS.index(name))
        self._words.extend(_word(argument) for argument in arguments)
        self._words.extend([0] * (_WORDS - 1 - len(arguments)))


def _word(argument: object) -> int:
    """An argument as the bits of a 64-bit word; floats are f32 in the low half."""
    if argument is None:
        return 0
    if isinstance(argument, float):
        return int(struct.unpack("<I", struct.pack("<f", argument))[0])
    assert isinstance(argument, int)
    return argument & (2**64 - 1)
