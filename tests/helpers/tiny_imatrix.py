"""Writes importance matrices as llama.cpp does, byte by byte, without the code under test."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.helpers.tiny_gguf import TinyTensor, build_gguf

Matrices = Mapping[str, tuple[NDArray[np.float64], list[int]]]
"""Name of a tensor -> sums of squares [matrices, columns], and how many tokens each matrix saw."""


def write_gguf_imatrix(path: Path, matrices: Matrices, *, counts: bool = True) -> Path:
    """The format of today. `counts`: without them the file is damaged."""
    tensors = []
    for name, (sums, seen) in matrices.items():
        tensors.append(TinyTensor(f"{name}.in_sum2", sums.shape, data=sums.astype("<f4").tobytes()))
        if counts:
            data = np.array(seen, "<f4").tobytes()
            tensors.append(TinyTensor(f"{name}.counts", (len(seen), 1), data=data))
    keys = {
        "general.type": "imatrix",
        "imatrix.datasets": ["text.txt"],
        "imatrix.chunk_count": 2,
        "imatrix.chunk_size": 512,
    }
    path.write_bytes(build_gguf(keys, tensors))
    return path


def write_legacy_imatrix(path: Path, matrices: Matrices, *, chunk: int = 512) -> Path:
    """The older format: means times calls; a matrix that saw nothing has means of 1."""
    data = struct.pack("<i", len(matrices))
    for name, (sums, seen) in matrices.items():
        calls = -(-max(seen) // chunk)
        means = [row / count if count else np.ones_like(row) for row, count in zip(sums, seen, strict=True)]
        values = (np.array(means) * calls).astype("<f4")
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", calls, values.size) + values.tobytes()
    data += struct.pack("<i", 2) + struct.pack("<i", 8) + b"text.txt"
    path.write_bytes(data)
    return path
