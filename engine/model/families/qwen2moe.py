"""Qwen2-MoE: biased q, k, v; gates that are not normalised; a shared expert with a gate of its own."""

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import Mapper
from ebbtide.engine.model.metadata import common_fields, expert_counts, width
from ebbtide.engine.model.parts import map_attention, map_ends, map_experts, map_shared_expert
from ebbtide.engine.model.spec import ModelSpec


def read_spec(file: GgufFile) -> ModelSpec:
    """The spec of a `qwen2moe` file. Without a key of its own an expert has 1/top_k of the model's d_ff."""
    experts, top_k = expert_counts(file, "qwen2moe")
    whole = file.get_int("qwen2moe.feed_forward_length", 0)
    return ModelSpec(
        d_ff=0,
        experts=experts,
        top_k=top_k,
        expert_d_ff=width(file, "qwen2moe.expert_feed_forward_length", whole // top_k or None),
        shared_d_ff=width(file, "qwen2moe.expert_shared_feed_forward_length", whole or None),
        rope_interleaved=False,
        qkv_bias=True,
        **common_fields(file, "qwen2moe"),
    )


def map_tensors(tensors: Mapper, spec: ModelSpec) -> None:
    """Every tensor of a `qwen2moe` file."""
    map_ends(tensors, spec)
    for layer in range(spec.layers):
        map_attention(tensors, spec, layer)
        map_experts(tensors, spec, layer)
        map_shared_expert(tensors, spec, layer)
