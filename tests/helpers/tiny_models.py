"""Small GGUF files with random weights, true to the format of each family: llama.cpp loads them too."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray

from tests.helpers.random_blocks import random_matrix
from tests.helpers.tiny_vocab import CHATML, CONTROLS, tiny_vocab

Family = Literal["llama", "mixtral", "olmoe", "qwen2moe", "qwen3moe"]
"""`llama` is dense, `mixtral` the llama architecture with experts."""
Tensor = tuple[str, tuple[int, ...], float]
"""Name, shape in rows-first order, standard deviation of the weights (0: an F32 vector, values near one)."""


@dataclass(frozen=True)
class TinyShape:
    """Dimensions of a tiny model. K-quants need multiples of 256 in d_model, d_ff and heads * head_dim.

    llama.cpp takes qwen2moe and olmoe only with heads * head_dim = d_model, olmoe only with as many key heads
    as heads, and no legacy experts at all.
    """

    layers: int = 2
    d_model: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    d_ff: int = 96
    experts: int = 4
    top_k: int = 2
    expert_d_ff: int = 96
    shared_d_ff: int = 64
    context: int = 512


EIGHT_EXPERTS: dict[str, Any] = {"experts": 8, "d_model": 128, "expert_d_ff": 128, "d_ff": 128, "layers": 3}
"""Sizes in which widths matter: whole groups of every format, and more layers than a beginning and an end."""


def write_tiny(
    path: Path,
    family: Family,
    *,
    quant: str = "Q8_0",
    types: Mapping[str, str] | None = None,
    tied: bool = False,
    legacy_experts: bool = False,
    rope_factors: bool = False,
    metadata: Mapping[str, Any] | None = None,
    drop: Collection[str] = (),
    seed: int = 0,
    **shape: int,
) -> Path:
    """Write a model and return its path.

    quant: GGUF type of every matrix; `types` overrides it by pattern, e.g. {"blk.*.ffn_down_exps.*": "Q5_1"}.
    tied: no output matrix. legacy_experts: one tensor per expert, as old Mixtral files have it. rope_factors:
    adds `rope_freqs.weight`. metadata: keys added, or with None left out. drop: patterns of tensors left out.
    shape: fields of `TinyShape`. The same arguments give the same bytes.
    """
    sizes = TinyShape(**shape)
    rng = np.random.default_rng(seed)
    tokens, _, _ = tiny_vocab()
    writer = GGUFWriter(path, _architecture(family))
    _add_metadata(writer, metadata_of(family, sizes) | dict(metadata or {}))
    for tensor in tensors_of(family, sizes, len(tokens), tied, legacy_experts, rope_factors):
        if not any(fnmatch(tensor[0], pattern) for pattern in drop):
            _add_tensor(writer, rng, tensor, _type_of(tensor[0], quant, types or {}))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _architecture(family: Family) -> str:
    return "llama" if family == "mixtral" else family


def metadata_of(family: Family, sizes: TinyShape) -> dict[str, Any]:
    """The keys of a file of this family with the vocabulary of `tiny_vocab`."""
    tokens, kinds, merges = tiny_vocab()
    common = {
        "block_count": sizes.layers,
        "context_length": sizes.context,
        "embedding_length": sizes.d_model,
        "feed_forward_length": sizes.d_ff,
        "attention.head_count": sizes.heads,
        "attention.head_count_kv": sizes.kv_heads,
        "attention.key_length": sizes.head_dim,
        "attention.value_length": sizes.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": sizes.head_dim,
        "rope.freq_base": 10000.0,
        "vocab_size": len(tokens),
    }
    if family != "llama":
        common |= {"expert_count": sizes.experts, "expert_used_count": sizes.top_k}
    if family.startswith("qwen"):
        common["expert_feed_forward_length"] = sizes.expert_d_ff
    if family == "qwen2moe":
        common["expert_shared_feed_forward_length"] = sizes.shared_d_ff
    return {f"{_architecture(family)}.{key}": value for key, value in common.items()} | {
        "general.name": f"tiny {family}",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
    }


def _add_metadata(writer: GGUFWriter, metadata: Mapping[str, Any]) -> None:
    for key, value in metadata.items():
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif value is not None:
            writer.add_array(key, value)


def tensors_of(
    family: Family,
    sizes: TinyShape,
    vocab: int,
    tied: bool = False,
    legacy_experts: bool = False,
    rope_factors: bool = False,
) -> Iterator[Tensor]:
    """Every tensor of such a file, in its order; see `write_tiny`."""
    d_model = sizes.d_model
    yield "token_embd.weight", (vocab, d_model), 1.0
    yield "output_norm.weight", (d_model,), 0.0
    if not tied:
        yield "output.weight", (vocab, d_model), 4 / np.sqrt(d_model)
    if rope_factors:
        yield "rope_freqs.weight", (sizes.head_dim // 2,), 0.0
    for layer in range(sizes.layers):
        blk = f"blk.{layer}"
        yield from _attention(blk, family, sizes)
        yield f"{blk}.ffn_norm.weight", (d_model,), 0.0
        if family == "llama":
            yield from _ffn(blk, "", (sizes.d_ff, d_model))
            continue
        # Gates that are not normalised show in the logits only where they do not sum to one anyway.
        is_normalised = family in ("mixtral", "qwen3moe")
        yield (
            f"{blk}.ffn_gate_inp.weight",
            (sizes.experts, d_model),
            1.0 if is_normalised else 2 / np.sqrt(d_model),
        )
        d_ff = sizes.expert_d_ff if family.startswith("qwen") else sizes.d_ff
        if legacy_experts:
            for expert in range(sizes.experts):
                yield from _ffn(blk, f".{expert}", (d_ff, d_model))
        else:
            yield from _ffn(blk, "_exps", (sizes.experts, d_ff, d_model))
        if family == "qwen2moe":
            yield f"{blk}.ffn_gate_inp_shexp.weight", (d_model,), 0.0
            yield from _ffn(blk, "_shexp", (sizes.shared_d_ff, d_model))


def _attention(blk: str, family: Family, sizes: TinyShape) -> Iterator[Tensor]:
    d_model, q_rows, kv_rows = sizes.d_model, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    yield f"{blk}.attn_norm.weight", (d_model,), 0.0
    for part, rows in (("q", q_rows), ("k", kv_rows), ("v", kv_rows)):
        yield f"{blk}.attn_{part}.weight", (rows, d_model), 1 / np.sqrt(d_model)
        if family == "qwen2moe":
            yield f"{blk}.attn_{part}.bias", (rows,), 0.0
    if family == "qwen3moe":
        yield f"{blk}.attn_q_norm.weight", (sizes.head_dim,), 0.0
        yield f"{blk}.attn_k_norm.weight", (sizes.head_dim,), 0.0
    if family == "olmoe":
        yield f"{blk}.attn_q_norm.weight", (q_rows,), 0.0
        yield f"{blk}.attn_k_norm.weight", (kv_rows,), 0.0
    yield f"{blk}.attn_output.weight", (d_model, q_rows), 1 / np.sqrt(q_rows)


def _ffn(blk: str, suffix: str, shape: tuple[int, ...]) -> Iterator[Tensor]:
    """Gate, up and down; `shape` is that of gate and up: [experts,] d_ff, d_model."""
    *front, d_ff, d_model = shape
    yield f"{blk}.ffn_gate{suffix}.weight", shape, 2 / np.sqrt(d_model)
    yield f"{blk}.ffn_up{suffix}.weight", shape, 2 / np.sqrt(d_model)
    yield f"{blk}.ffn_down{suffix}.weight", (*front, d_model, d_ff), 2 / np.sqrt(d_ff)


def _type_of(name: str, quant: str, types: Mapping[str, str]) -> str:
    if "gate_inp." in name:
        quant = "F32"
    for pattern, type_name in types.items():
        if fnmatch(name, pattern):
            quant = type_name
    return quant


def _add_tensor(writer: GGUFWriter, rng: np.random.Generator, tensor: Tensor, type_name: str) -> None:
    name, shape, std = tensor
    if std == 0:
        near_one: NDArray[np.float32] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        writer.add_tensor(name, near_one)
        return
    *front, rows, cols = shape
    raw = random_matrix(rng, type_name, int(np.prod(front, initial=1)) * rows, cols, std)
    kind = GGMLQuantizationType[type_name]
    if type_name in ("F32", "F16"):
        writer.add_tensor(name, raw.view(np.float32 if type_name == "F32" else np.float16).reshape(shape))
    else:
        writer.add_tensor(name, raw.reshape(*front, rows, -1), raw_dtype=kind)


__all__ = ["CONTROLS", "Family", "TinyShape", "metadata_of", "tensors_of", "write_tiny"]
