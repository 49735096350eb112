"""Chooses what packs plane lines: compiled code where it is built, else numpy."""

import ctypes
from functools import cache

import numpy as np

from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.lines import LinePacker, pack_lines
from ebbtide.kernels.cpu.library import library
from ebbtide.kernels.layout import STRIP_ROWS


@cache
def line_packer() -> LinePacker:
    """The fastest packer at hand; all of them give the same bytes."""
    return compiled_packer() or pack_lines


def compiled_packer() -> LinePacker | None:
    """The packer of the compiled kernels; None where they are not built."""
    try:
        lib = library()
    except OSError:
        return None

    def pack(codes: U8, planes: int, out: U8) -> None:
        rows, cols = codes.shape
        start, step = out.ctypes.data, out.strides[0]
        starts = (ctypes.c_void_p * planes)(*(start + plane * step for plane in range(planes)))
        source = ctypes.c_void_p(np.ascontiguousarray(codes).ctypes.data)
        lib.eb_pack_planes(source, cols, 0, rows // STRIP_ROWS, planes, starts)

    return pack
