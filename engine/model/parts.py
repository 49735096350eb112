"""Groups of tensors that families share: attention, feed-forward networks, experts."""

from ebbtide.engine.model.mapping import Mapper, Part
from ebbtide.engine.model.spec import ModelSpec


def map_ends(tensors: Mapper, spec: ModelSpec) -> None:
    """Embedding, output matrix, last norm, rotation factors."""
    tensors.block("embedding", tensors.matrix("token_embd.weight", spec.vocab, spec.d_model))
    if not spec.tied_head:
        tensors.block("head", tensors.matrix("output.weight", spec.vocab, spec.d_model))
    tensors.vector("final_norm", ["output_norm.weight"], (spec.d_model,))
    if spec.rope_factors:
        tensors.vector("rope_factors", ["rope_freqs.weight"], (spec.rope_dim // 2,))


def map_attention(tensors: Mapper, spec: ModelSpec, layer: int) -> None:
    """Norm, q | k | v with what goes with them, output."""
    blk, q_rows, kv_rows = f"blk.{layer}", spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    tensors.vector(f"{blk}.attn_norm", [f"{blk}.attn_norm.weight"], (spec.d_model,))
    sizes = {"q": q_rows, "k": kv_rows, "v": kv_rows}
    qkv = [tensors.matrix(f"{blk}.attn_{part}.weight", rows, spec.d_model) for part, rows in sizes.items()]
    tensors.block(f"{blk}.qkv", *qkv)
    if spec.qkv_bias:
        names = [f"{blk}.attn_{part}.bias" for part in sizes]
        tensors.vector(f"{blk}.qkv_bias", names, *((rows,) for rows in sizes.values()))
    if spec.qk_norm != "none":
        for part in ("q", "k"):
            normed = spec.head_dim if spec.qk_norm == "head" else sizes[part]
            tensors.vector(f"{blk}.{part}_norm", [f"{blk}.attn_{part}_norm.weight"], (normed,))
    tensors.block(f"{blk}.attn_out", tensors.matrix(f"{blk}.attn_output.weight", spec.d_model, q_rows))


def map_dense_ffn(tensors: Mapper, spec: ModelSpec, layer: int) -> None:
    """Norm, gate | up, down of a layer without experts."""
    blk = f"blk.{layer}"
    tensors.vector(f"{blk}.ffn_norm", [f"{blk}.ffn_norm.weight"], (spec.d_model,))
    gate, up, down = _ffn(tensors, blk, "", spec.d_model, spec.d_ff)
    tensors.block(f"{blk}.gate_up", gate, up)
    tensors.block(f"{blk}.down", down)


def map_experts(tensors: Mapper, spec: ModelSpec, layer: int) -> None:
    """Norm, router and experts, which lie in one tensor per layer or, in older files, in one tensor each."""
    blk = f"blk.{layer}"
    tensors.vector(f"{blk}.ffn_norm", [f"{blk}.ffn_norm.weight"], (spec.d_model,))
    tensors.vector(f"{blk}.router", [f"{blk}.ffn_gate_inp.weight"], (spec.experts, spec.d_model))
    if tensors.has(f"{blk}.ffn_gate.0.weight"):
        each = [_ffn(tensors, blk, f".{e}", spec.d_model, spec.expert_d_ff) for e in range(spec.experts)]
        gate, up, down = zip(*each, strict=True)
    else:
        sizes = (spec.experts, spec.expert_d_ff, spec.d_model)
        gate = tensors.bank(f"{blk}.ffn_gate_exps.weight", *sizes)
        up = tensors.bank(f"{blk}.ffn_up_exps.weight", *sizes)
        down = tensors.bank(f"{blk}.ffn_down_exps.weight", spec.experts, spec.d_model, spec.expert_d_ff)
    tensors.expert_blocks(layer, "gate_up", gate, up)
    tensors.expert_blocks(layer, "down", down)


def map_shared_expert(tensors: Mapper, spec: ModelSpec, layer: int) -> None:
    """The expert that every token visits, and its gate."""
    blk = f"blk.{layer}"
    gate, up, down = _ffn(tensors, blk, "_shexp", spec.d_model, spec.shared_d_ff)
    tensors.block(f"{blk}.shared_gate_up", gate, up)
    tensors.block(f"{blk}.shared_down", down)
    tensors.vector(f"{blk}.shared_gate", [f"{blk}.ffn_gate_inp_shexp.weight"], (spec.d_model,))


def _ffn(tensors: Mapper, blk: str, suffix: str, d_model: int, d_ff: int) -> tuple[Part, Part, Part]:
    return (
        tensors.matrix(f"{blk}.ffn_gate{suffix}.weight", d_ff, d_model),
        tensors.matrix(f"{blk}.ffn_up{suffix}.weight", d_ff, d_model),
        tensors.matrix(f"{blk}.ffn_down{suffix}.weight", d_model, d_ff),
    )
