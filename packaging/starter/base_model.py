"""The dense base as PyTorch tensors and a tokenizer, both read from its GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

CONTROL_TOKEN = 3  # GGUF token type of markers such as <|im_start|>


@dataclass(frozen=True)
class Shape:
    """Sizes of the dense base; head_dim and rope_dim count floats."""

    layers: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_base: float
    norm_eps: float


class BaseModel:
    """Dequantised float32 tensors by GGUF name, matrices as [out, in]."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors: dict[str, Tensor] = {}
        for tensor in reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            self.tensors[tensor.name] = torch.from_numpy(np.ascontiguousarray(values))
        self.shape = _shape(self.fields)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def tokenizer(self) -> Tokenizer:
        """Byte-level BPE with single digits, as the file's `smollm` pre-tokenizer asks for."""
        tokens: list[str] = self.fields["tokenizer.ggml.tokens"]
        merges = [tuple(pair.split(" ", 1)) for pair in self.fields["tokenizer.ggml.merges"]]
        vocabulary = {token: index for index, token in enumerate(tokens)}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        kinds = self.fields["tokenizer.ggml.token_type"]
        control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
        return tokenizer


def _shape(fields: dict[str, Any]) -> Shape:
    heads = int(fields["llama.attention.head_count"])
    width = int(fields["llama.embedding_length"])
    return Shape(
        layers=int(fields["llama.block_count"]),
        width=width,
        ffn=int(fields["llama.feed_forward_length"]),
        heads=heads,
        kv_heads=int(fields["llama.attention.head_count_kv"]),
        head_dim=width // heads,
        rope_base=float(fields["llama.rope.freq_base"]),
        norm_eps=float(fields["llama.attention.layer_norm_rms_epsilon"]),
    )
