"""Writes GGUF files of real models' sizes with random weights, as fast as the disk takes them.

Codes are random bytes straight in the quantised type.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tests.gpu.shapes import STARTER, ModelShape
from tests.helpers.tiny_gguf import TinyTensor, tensor_bytes, text, value_bytes
from tests.helpers.tiny_models import Family, TinyShape, metadata_of, tensors_of
from tests.helpers.tiny_vocab import NORMAL, tiny_vocab

U8 = NDArray[np.uint8]
ALIGNMENT = 32
GROUP = 32
BLOCK_BYTES = 18
"""Q4_0: an f16 scale and 32 codes of 4 bits."""
CODE_STD = 4.61
"""Standard deviation of codes 0 to 15."""
PIECE_BLOCKS = 1 << 20
F32_KIND, Q4_0_KIND = 0, 2
CONTEXT = 4096


def write_model(path: Path, model: ModelShape, layers: int, seed: int) -> int:
    """Write `layers` layers of a model in Q4_0 (vectors and routers F32). Returns the file's bytes."""
    family: Family = "mixtral" if model.name == STARTER.name else "qwen3moe"
    architecture = "llama" if family == "mixtral" else family
    sizes = TinyShape(
        layers,
        model.d_model,
        model.heads,
        model.kv_heads,
        model.head_dim,
        model.expert_d_ff,
        model.experts,
        model.top_k,
        model.expert_d_ff,
        context=CONTEXT,
    )
    keys = metadata_of(family, sizes) | _vocabulary(model.vocab)
    keys["general.architecture"] = architecture
    keys[f"{architecture}.vocab_size"] = len(keys["tokenizer.ggml.tokens"])
    tensors = list(tensors_of(family, sizes, len(keys["tokenizer.ggml.tokens"])))
    pieces = _Pieces(seed)
    with path.open("wb") as file:
        _write_head(file, keys, tensors)
        for name, shape, std in tensors:
            for piece in pieces.of(name, shape, std):
                file.write(piece.data)
            file.write(b"\0" * (-_bytes(name, shape, std) % ALIGNMENT))
        return file.tell()


def bytes_of(model: ModelShape, layers: int) -> int:
    """About what `write_model` writes."""
    experts = layers * model.experts * 3 * model.d_model * model.expert_d_ff
    return (experts + 2 * model.vocab * model.d_model) // GROUP * BLOCK_BYTES


def _vocabulary(count: int) -> dict[str, Any]:
    """The tiny one, filled up with tokens that no text is made of."""
    tokens, kinds, _ = tiny_vocab()
    fill = [f"<|fill_{number}|>" for number in range(count - len(tokens))]
    return {
        "tokenizer.ggml.tokens": tokens + fill,
        "tokenizer.ggml.token_type": np.array(kinds + [NORMAL] * len(fill), np.int32),
    }


def _write_head(
    file: BinaryIO, keys: dict[str, Any], tensors: list[tuple[str, tuple[int, ...], float]]
) -> None:
    file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
    for key, value in keys.items():
        file.write(text(key) + value_bytes(value))
    offset = 0
    for name, shape, std in tensors:
        kind = F32_KIND if _is_plain(name, std) else Q4_0_KIND
        file.write(tensor_bytes(TinyTensor(name, shape, kind), offset))
        offset += -(-_bytes(name, shape, std) // ALIGNMENT) * ALIGNMENT
    file.write(b"\0" * (-file.tell() % ALIGNMENT))


def _is_plain(name: str, std: float) -> bool:
    return std == 0 or "gate_inp" in name


def _bytes(name: str, shape: tuple[int, ...], std: float) -> int:
    count = int(np.prod(shape))
    return 4 * count if _is_plain(name, std) else count // GROUP * BLOCK_BYTES


class _Pieces:
    """Random data, made as it is written."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.SFC64(seed))  # the fastest one

    def of(self, name: str, shape: tuple[int, ...], std: float) -> Iterator[NDArray[Any]]:
        """The data of one tensor, with weights of this standard deviation (0: values near one)."""
        count = int(np.prod(shape))
        if _is_plain(name, std):
            values = self._rng.standard_normal(count) * std if std else self._rng.uniform(0.5, 1.5, count)
            yield values.astype(np.float32)
            return
        for start in range(0, count // GROUP, PIECE_BLOCKS):
            blocks = min(PIECE_BLOCKS, count // GROUP - start)
            piece = np.frombuffer(bytearray(self._rng.bytes(blocks * BLOCK_BYTES)), np.uint8)
            piece = piece.reshape(blocks, BLOCK_BYTES)
            sizes = self._rng.uniform(0.7, 1.3, blocks) * std / CODE_STD
            piece[:, :2] = sizes.astype(np.float16).view(np.uint8).reshape(-1, 2)
            yield piece
