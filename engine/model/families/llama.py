"""Llama and its kin: dense, or with experts in Mixtral's way (normalised top-k gates)."""

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import Mapper
from ebbtide.engine.model.metadata import common_fields, expert_counts, width
from ebbtide.engine.model.parts import map_attention, map_dense_ffn, map_ends, map_experts
from ebbtide.engine.model.spec import ModelSpec


def read_spec(file: GgufFile) -> ModelSpec:
    """The spec of a `llama` file."""
    fields = common_fields(file, "llama") | {
        "rope_interleaved": True,
        "qkv_bias": "blk.0.attn_q.bias" in file.tensors,
    }
    d_ff = width(file, "llama.feed_forward_length")
    if file.get_int("llama.expert_count", 0) == 0:
        return ModelSpec(d_ff=d_ff, **fields)
    experts, top_k = expert_counts(file, "llama")
    return ModelSpec(d_ff=0, experts=experts, top_k=top_k, expert_d_ff=d_ff, normalise_top_k=True, **fields)


def map_tensors(tensors: Mapper, spec: ModelSpec) -> None:
    """Every tensor of a `llama` file."""
    map_ends(tensors, spec)
    for layer in range(spec.layers):
        map_attention(tensors, spec, layer)
        if spec.dense_ffn:
            map_dense_ffn(tensors, spec, layer)
        else:
            map_experts(tensors, spec, layer)
