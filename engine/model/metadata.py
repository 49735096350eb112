"""Dimensions that every family keeps under the same keys, and the refusal of what is not computed."""

from collections.abc import Mapping
from typing import Any

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "expert_gating_func": (0, 1),
    "expert_group_count": (0, 1),
    "expert_weights_scale": (0.0, 1.0),
    "leading_dense_block_count": (0,),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "embedding_scale": (0.0, 1.0),
    "rope.scaling.attn_factor": (0.0, 1.0),
}
"""Keys under the architecture's prefix that change what is computed, with the values that change nothing."""


def common_fields(file: GgufFile, architecture: str) -> dict[str, Any]:
    """The fields of `ModelSpec` that every family reads alike. Raises ModelError naming the key at fault."""
    _refuse_variants(file, architecture)
    layers = _positive(file, f"{architecture}.block_count")
    d_model = _positive(file, f"{architecture}.embedding_length")
    heads = _positive(file, f"{architecture}.attention.head_count")
    kv_heads = _positive(file, f"{architecture}.attention.head_count_kv", heads)
    head_dim = _positive(file, f"{architecture}.attention.key_length", d_model // heads)
    if heads % kv_heads:
        raise _contradiction(file, f"{heads} attention heads do not share {kv_heads} key heads evenly")
    if _positive(file, f"{architecture}.attention.value_length", head_dim) != head_dim:
        raise _contradiction(file, "keys and values of different lengths are not supported")
    return {
        "architecture": architecture,
        "name": file.get_str("general.name", file.path.stem),
        "layers": layers,
        "d_model": d_model,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "vocab": _vocab(file),
        "context": _positive(file, f"{architecture}.context_length"),
        "norm_eps": file.require_float(f"{architecture}.attention.layer_norm_rms_epsilon"),
        "tied_head": "output.weight" not in file.tensors,
        "type_bytes": _type_bytes(file),
        **_rope_fields(file, architecture, head_dim),
    }


def expert_counts(file: GgufFile, architecture: str) -> tuple[int, int]:
    """(experts, top_k). Raises ModelError unless 1 <= top_k <= experts."""
    experts = _positive(file, f"{architecture}.expert_count")
    top_k = _positive(file, f"{architecture}.expert_used_count")
    if top_k > experts:
        raise _contradiction(file, f"{top_k} of {experts} experts cannot be chosen")
    return experts, top_k


def width(file: GgufFile, key: str, default: int | None = None) -> int:
    """A positive number under `key`."""
    return _positive(file, key, default)


def _rope_fields(file: GgufFile, architecture: str, head_dim: int) -> dict[str, Any]:
    rope_dim = _positive(file, f"{architecture}.rope.dimension_count", head_dim)
    if rope_dim % 2 or rope_dim > head_dim:
        raise _contradiction(file, f"{rope_dim} of {head_dim} dimensions of a head cannot be rotated")
    base = file.get_float(f"{architecture}.rope.freq_base", 10000.0)
    if base <= 0:
        raise _contradiction(file, f"key {architecture}.rope.freq_base is {base}")
    return {
        "rope_base": base,
        "rope_dim": rope_dim,
        "rope_linear_scale": _linear_scale(file, architecture),
        "rope_factors": "rope_freqs.weight" in file.tensors,
    }


def _linear_scale(file: GgufFile, architecture: str) -> float:
    kind = file.get_str(f"{architecture}.rope.scaling.type", "linear")
    factor = file.get_float(f"{architecture}.rope.scaling.factor", 0.0)
    factor = factor or file.get_float(f"{architecture}.rope.scale_linear", 0.0) or 1.0
    if kind == "none" or factor == 1.0:
        return 1.0
    if kind != "linear" or factor < 0:
        raise ModelError(
            f"{file.path.name} stretches positions by {kind!r}, factor {factor:g}, which is not supported",
            hint="Use the GGUF of this model with its original context length.",
        )
    return factor


def _refuse_variants(file: GgufFile, architecture: str) -> None:
    for key, neutral in _NEUTRAL.items():
        full = f"{architecture}.{key}"
        if full in file.metadata and file.metadata[full] not in neutral:
            raise ModelError(
                f"{file.path.name} needs {full} = {file.metadata[full]}, which ebbtide does not compute",
                hint="Use another model; the answers of this one would be wrong.",
            )


def _vocab(file: GgufFile) -> int:
    if "token_embd.weight" not in file.tensors:
        raise ModelError(
            f"{file.path.name} lacks the tensor token_embd.weight",
            hint="The file is incomplete or not a language model; fetch it again.",
        )
    return file.tensors["token_embd.weight"].shape[0]


def _type_bytes(file: GgufFile) -> dict[str, int]:
    totals: dict[str, int] = {}
    for tensor in file.tensors.values():
        totals[tensor.type_name] = totals.get(tensor.type_name, 0) + tensor.nbytes
    return totals


def _positive(file: GgufFile, key: str, default: int | None = None) -> int:
    value = file.require_int(key) if default is None else file.get_int(key, default)
    if value < 1:
        raise _contradiction(file, f"key {key} is {value}")
    return value


def _contradiction(file: GgufFile, what: str) -> ModelError:
    hint = "The file is damaged or of a kind that is not supported."
    return ModelError(f"{file.path.name}: {what}", hint=hint)
