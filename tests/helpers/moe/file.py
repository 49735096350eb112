"""Writes a random model to disk, tensor by tensor, with a few pieces of it in memory at a time."""

import os
import struct
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

from tests.helpers.moe.experts import Experts
from tests.helpers.moe.kinds import FILE_TYPES, kind_of
from tests.helpers.moe.quantiser import Quantiser, row_bytes
from tests.helpers.moe.shapes import MoeShape
from tests.helpers.moe.vocabulary import Words
from tests.helpers.moe.weights import Weights
from tests.helpers.tiny_gguf import TinyTensor, tensor_bytes, text, value_bytes
from tests.helpers.tiny_models import metadata_of, tensors_of

ALIGNMENT = 32
PIECE_ROWS = 2048
Piece = Callable[[], NDArray[Any]]
Progress = Callable[[str, int, int], None]
"""(tensor, bytes written, bytes in all)"""


class Tensor(NamedTuple):
    """An entry of the file; `shape` rows first."""

    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def nbytes(self) -> int:
        *front, cols = self.shape
        return int(np.prod(front, initial=1)) * row_bytes(self.kind, cols)

    @property
    def padded_bytes(self) -> int:
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


class RandomModel:
    """A model in a shape's true sizes. The same arguments give the same bytes."""

    def __init__(self, name: str, shape: MoeShape, words: Words, kind: str, seed: int) -> None:
        """`kind` is a key of `FILE_TYPES`. Raises ModuleNotFoundError without llama.cpp's library."""
        self._seed, self._quantiser = seed, Quantiser()
        self._weights = Weights(shape, words)
        self._experts = Experts(shape, self._quantiser, seed)
        entries = tensors_of(shape.family, shape.sizes, shape.vocab)
        self.tensors = [Tensor(name, size, kind_of(name, size, kind)) for name, size, _ in entries]
        self._head = _head(_keys(name, shape, words, kind), self.tensors)

    @property
    def size_bytes(self) -> int:
        return len(self._head) + sum(tensor.padded_bytes for tensor in self.tensors)

    def write(self, file: BinaryIO, progress: Progress) -> None:
        """Write the whole file."""
        file.write(self._head)
        done = 0
        for tensor, is_last, piece in _made_ahead(self._pieces()):
            file.write(piece.data)
            if is_last:
                file.write(b"\0" * (tensor.padded_bytes - tensor.nbytes))
                done += tensor.padded_bytes
                progress(tensor.name, len(self._head) + done, self.size_bytes)

    def _pieces(self) -> Iterator[tuple[Tensor, bool, Piece]]:
        """(tensor, whether this is its last piece, what makes the piece), in the file's order."""
        for tensor in self.tensors:
            *front, _ = tensor.shape
            is_expert = "exps." in tensor.name or "shexp." in tensor.name
            if len(front) == 0:
                yield tensor, True, partial(self._vector, tensor)
            elif is_expert:
                for expert in range(count := int(np.prod(front[:-1], initial=1))):
                    yield tensor, expert == count - 1, partial(self._expert, tensor, expert)
            else:
                for start in range(0, front[0], PIECE_ROWS):
                    stop = min(start + PIECE_ROWS, front[0])
                    yield tensor, stop == front[0], partial(self._rows, tensor, start, stop)

    def _vector(self, tensor: Tensor) -> NDArray[Any]:
        return self._weights.vector(tensor.name, self._rng(tensor, 0), tensor.shape[0])

    def _rows(self, tensor: Tensor, start: int, stop: int) -> NDArray[Any]:
        values = self._weights.rows(tensor.name)(self._rng(tensor, start), start, stop)
        return values if tensor.kind == "F32" else self._quantiser.quantise(tensor.kind, values)

    def _expert(self, tensor: Tensor, expert: int) -> NDArray[Any]:
        return self._experts.matrix(self._rng(tensor, expert), tensor.name, tensor.kind, *tensor.shape[-2:])

    def _rng(self, tensor: Tensor, piece: int) -> np.random.Generator:
        """Of its own for each piece, so that the threads' order does not matter."""
        return np.random.Generator(np.random.SFC64([self._seed, crc32(tensor.name.encode()), piece]))


def _made_ahead(pieces: Iterator[tuple[Tensor, bool, Piece]]) -> Iterator[tuple[Tensor, bool, NDArray[Any]]]:
    """The pieces themselves, in order; a few are made by threads while one is written."""
    waiting: deque[tuple[Tensor, bool, Future[NDArray[Any]]]] = deque()
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as threads:
        for tensor, is_last, make in pieces:
            waiting.append((tensor, is_last, threads.submit(make)))
            while len(waiting) > 2 * workers:
                first, last, future = waiting.popleft()
                yield first, last, future.result()
        for first, last, future in waiting:
            yield first, last, future.result()


def _keys(name: str, shape: MoeShape, words: Words, kind: str) -> dict[str, Any]:
    arch = str(shape.family)
    return (
        metadata_of(shape.family, shape.sizes)
        | words.keys
        | {
            "general.architecture": arch,
            "general.name": f"random {name}",
            "general.file_type": FILE_TYPES[kind],
            "general.quantization_version": 2,
            f"{arch}.attention.layer_norm_rms_epsilon": shape.norm_eps,
            f"{arch}.rope.freq_base": shape.rope_base,
            f"{arch}.vocab_size": shape.vocab,
        }
    )


def _head(keys: dict[str, Any], tensors: list[Tensor]) -> bytes:
    """Everything in front of the data, padded."""
    parts = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))]
    parts += [text(key) + value_bytes(value) for key, value in keys.items()]
    offset = 0
    for tensor in tensors:
        kind = int(GGMLQuantizationType[tensor.kind])
        parts.append(tensor_bytes(TinyTensor(tensor.name, tensor.shape, kind), offset))
        offset += tensor.padded_bytes
    head = b"".join(parts)
    return head + b"\0" * (-len(head) % ALIGNMENT)


def write_model(path: Path, model: RandomModel, progress: Progress = lambda *_: None) -> None:
    """Write it to `path`, which holds the whole file or, if anything goes wrong, what it held before.

    Raises OSError.
    """
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            model.write(file, progress)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
