"""Chooses what packs plane lines: compiled code where it is built, else numpy."""

from functools import cache

from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.lines import LinePacker, pack_lines
from ebbtide.kernels.cpu.library import library
from ebbtide.kernels.cpu.planes import pack_planes


@cache
def line_packer() -> LinePacker:
    """The fastest packer at hand; all of them give the same bytes."""
    return compiled_packer() or pack_lines


def compiled_packer() -> LinePacker | None:
    """The packer of the compiled kernels; None where they are not built."""
    try:
        library()
    except OSError:
        return None
    return _pack


def _pack(codes: U8, planes: int, out: U8) -> None:
    pack_planes(codes, planes, list(out))
