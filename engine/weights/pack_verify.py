"""Reading a whole pack once, to compare all of it with its checksums."""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ebbtide.engine.errors import UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.model.mapping import KINDS
from ebbtide.engine.weights.pack_source import PackSource, is_pack

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all)."""


def verify_pack(path: Path, progress: Progress = lambda done, total: None) -> int:
    """Compare every block of a pack with its checksums; returns the bytes that were read.

    Raises ModelError with the first that differs, and UsageError for a file that is no pack.
    """
    file = open_gguf(path)
    if not is_pack(file):
        raise UsageError(
            f"{path.name} is not a pack: a plain model file has no checksums",
            hint="Compare the file with the checksum that its source gives.",
        )
    source = PackSource(file)
    done, total = 0, sum(tensor.nbytes for tensor in file.tensors.values())
    try:
        for nbytes in _read_all(source):
            done += nbytes
            progress(done, total)
        progress(total, total)
    finally:
        source.close()
    return done


def _read_all(source: PackSource) -> Iterator[int]:
    """Read each vector and block, which compares it; yields its bytes."""
    for name in source.index.vectors:
        yield source.vector(name).nbytes
    for name in source.index.dense:
        size = source.dense_layout(name).span_bytes
        source.read_dense(name, np.empty(size, np.uint8))
        yield size
    if source.index.books is not None:
        yield source.book_errors().nbytes
    for layer in range(len(source.index.experts)):
        for kind in KINDS:
            layout = source.expert_layout(layer, kind)
            memory = np.frombuffer(mmap.mmap(-1, layout.span_bytes), np.uint8)
            target = [(memory.ctypes.data, layout.span_bytes)]
            for expert in range(source.spec.experts):
                yield source.read_expert(layer, expert, kind, 0, len(layout.extent_ends) - 1, target)
