"""Codes into planes by the compiled library."""

import ctypes
from collections.abc import Sequence

import numpy as np

from ebbtide.kernels.cpu.library import address, library
from ebbtide.kernels.layout import GROUP_COLS, LINE_BYTES, STRIP_ROWS
from ebbtide.kernels.ops import U8, KernelError


def pack_planes(codes: U8, planes: int, outs: Sequence[U8]) -> None:
    """Write codes u8[rows, cols] as `planes` planes, outs[p] u8[rows * cols / 8], most significant bit first.

    rows is a multiple of 16, cols of 32. Runs on the calling thread without the interpreter lock, so several
    threads may pack at once. Raises KernelError for other sizes, OSError where the library is missing.
    """
    rows, cols = codes.shape
    if rows % STRIP_ROWS or cols % GROUP_COLS or codes.dtype != np.uint8 or not codes.flags.c_contiguous:
        raise KernelError(f"pack_planes: codes {codes.dtype} {codes.shape}")
    wanted = rows // STRIP_ROWS * (cols // GROUP_COLS) * LINE_BYTES
    if len(outs) != planes or any(o.nbytes != wanted or not o.flags.c_contiguous for o in outs):
        raise KernelError(f"pack_planes: outputs of {[o.nbytes for o in outs]}, not {planes} x {wanted}")
    targets = (ctypes.c_void_p * planes)(*(address(o) for o in outs))
    pack = library().eb_pack_planes
    pack.argtypes = [ctypes.c_void_p, *(ctypes.c_int,) * 4, ctypes.c_void_p]
    pack.restype = None
    pack(address(codes), cols, 0, rows // STRIP_ROWS, planes, targets)
