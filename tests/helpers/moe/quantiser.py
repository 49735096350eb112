"""llama.cpp's own quantiser, from the library that llama-cpp-python brings."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
_KINDS = ("Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q4_K", "Q6_K", "IQ4_NL", "IQ4_XS")
_NAMES = ("libggml-base.so", "libggml-base.dylib", "ggml-base.dll")


class Quantiser:
    """Threads may share it; the library does not hold Python's lock while it works."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError, with what to do, where the library is missing."""
        self._library = ctypes.CDLL(str(_library()))
        quantise = self._library.ggml_quantize_chunk
        quantise.restype = ctypes.c_size_t
        sizes = [ctypes.c_int64] * 3
        quantise.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *sizes, ctypes.c_void_p]
        for kind in GGMLQuantizationType:  # its tables are not made under a lock
            if kind.name in _KINDS:
                self._library.ggml_quantize_init(int(kind))

    def quantise(self, kind: str, rows: F32) -> U8:
        """Raw blocks u8[rows, row bytes] of f32[rows, columns], columns being a multiple of the block's."""
        count, cols = rows.shape
        rows = np.ascontiguousarray(rows)
        out = np.empty((count, row_bytes(kind, cols)), np.uint8)
        number = int(GGMLQuantizationType[kind])
        addresses = rows.ctypes.data, out.ctypes.data
        written = self._library.ggml_quantize_chunk(number, *addresses, 0, count, cols, None)
        assert written == out.nbytes, f"{written} bytes of {out.nbytes}"
        return out

    @staticmethod
    def block_bytes(kind: str) -> int:
        """Bytes of one block."""
        return GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]


def row_bytes(kind: str, cols: int) -> int:
    """Bytes of a row. Raises ValueError when it is not made of whole blocks."""
    block_cols, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    if cols % block_cols:
        raise ValueError(f"a row of {cols} is not made of {kind} blocks of {block_cols}")
    return cols // block_cols * block_bytes


def _library() -> Path:
    spec = find_spec("llama_cpp")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for name in _NAMES:
            path = Path(folder) / "lib" / name
            if path.exists():
                return path
    raise ModuleNotFoundError("llama-cpp-python is missing: python -m pip install llama-cpp-python==0.3.36")
