"""Qwen3-MoE: queries and keys normed per head; routed experts with normalised gates, no shared expert."""

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import Mapper
from ebbtide.engine.model.metadata import common_fields, expert_counts, width
from ebbtide.engine.model.parts import map_attention, map_ends, map_experts
from ebbtide.engine.model.spec import ModelSpec


def read_spec(file: GgufFile) -> ModelSpec:
    """The spec of a `qwen3moe` file. Without a key of its own an expert has 1/top_k of the model's d_ff."""
    experts, top_k = expert_counts(file, "qwen3moe")
    whole = file.get_int("qwen3moe.feed_forward_length", 0)
    return ModelSpec(
        d_ff=0,
        experts=experts,
        top_k=top_k,
        expert_d_ff=width(file, "qwen3moe.expert_feed_forward_length", whole // top_k or None),
        normalise_top_k=True,
        rope_interleaved=False,
        qk_norm="head",
        **common_fields(file, "qwen3moe"),
    )


def map_tensors(tensors: Mapper, spec: ModelSpec) -> None:
    """Every tensor of a `qwen3moe` file."""
    map_ends(tensors, spec)
    for layer in range(spec.layers):
        map_attention(tensors, spec, layer)
        map_experts(tensors, spec, layer)
