"""OLMoE: queries and keys normed over the whole row; routed experts whose gates are not normalised."""

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.mapping import Mapper
from ebbtide.engine.model.metadata import common_fields, expert_counts, width
from ebbtide.engine.model.parts import map_attention, map_ends, map_experts
from ebbtide.engine.model.spec import ModelSpec


def read_spec(file: GgufFile) -> ModelSpec:
    """The spec of an `olmoe` file. Its d_ff is that of one expert."""
    experts, top_k = expert_counts(file, "olmoe")
    return ModelSpec(
        d_ff=0,
        experts=experts,
        top_k=top_k,
        expert_d_ff=width(file, "olmoe.feed_forward_length"),
        rope_interleaved=False,
        qk_norm="row",
        **common_fields(file, "olmoe"),
    )


def map_tensors(tensors: Mapper, spec: ModelSpec) -> None:
    """Every tensor of an `olmoe` file."""
    map_ends(tensors, spec)
    for layer in range(spec.layers):
        map_attention(tensors, spec, layer)
        map_experts(tensors, spec, layer)
