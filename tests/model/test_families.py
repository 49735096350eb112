"""Specs and tensor maps of every family, and refusals by name."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.model.families import map_model, spec_from_gguf
from ebbtide.engine.model.mapping import ModelMap
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.source import distinct_blocks, expert_shapes
from tests.helpers.tiny_models import Family, TinyShape, metadata_of, write_tiny


def read(path: Path, family: Family, **options: Any) -> tuple[GgufFile, ModelSpec, ModelMap]:
    file = open_gguf(write_tiny(path / "model.gguf", family, **options))
    spec = spec_from_gguf(file)
    return file, spec, map_model(file, spec)


def test_dense_llama(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "llama", layers=3, heads=4, kv_heads=1, head_dim=48, d_ff=160)
    assert (spec.architecture, spec.name, spec.layers, spec.dense_ffn) == ("llama", "tiny llama", 3, True)
    assert (spec.heads, spec.kv_heads, spec.head_dim, spec.d_ff) == (4, 1, 48, 160)
    assert (spec.rope_dim, spec.rope_base, spec.rope_interleaved) == (48, 10000.0, True)
    assert (spec.vocab, spec.context) == (275, 512) and spec.norm_eps == pytest.approx(1e-5)
    assert (spec.tied_head, spec.qkv_bias, spec.qk_norm, spec.rope_factors) == (False, False, "none", False)
    assert [part.rows for part in weights.dense["blk.2.qkv"]] == [192, 48, 48]
    assert [part.rows for part in weights.dense["blk.2.gate_up"]] == [160, 160]
    assert "head" in weights.dense and not weights.experts


def test_mixtral_normalises_its_gates(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "mixtral", experts=6, top_k=3, d_ff=64)
    assert (spec.architecture, spec.experts, spec.top_k, spec.expert_d_ff) == ("llama", 6, 3, 64)
    assert (spec.normalise_top_k, spec.rope_interleaved, spec.dense_ffn, spec.d_ff) == (True, True, False, 0)
    gate, up = weights.experts[1, "gate_up"][4]
    assert gate.tensor.name == "blk.1.ffn_gate_exps.weight"
    assert (gate.first_row, gate.rows, gate.cols) == (256, 64, 128)
    assert up.tensor.name == "blk.1.ffn_up_exps.weight"
    (down,) = weights.experts[1, "down"][5]
    assert (down.first_row, down.rows, down.cols) == (5 * 128, 128, 64)


def test_legacy_experts_lie_in_tensors_of_their_own(tmp_path: Path) -> None:
    _, _, weights = read(tmp_path, "mixtral", legacy_experts=True)
    gate, up = weights.experts[0, "gate_up"][3]
    names = (gate.tensor.name, up.tensor.name)
    assert names == ("blk.0.ffn_gate.3.weight", "blk.0.ffn_up.3.weight")
    assert (gate.first_row, up.first_row) == (0, 0)


def test_qwen2moe_has_biases_and_a_shared_expert(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "qwen2moe", shared_d_ff=192, expert_d_ff=64)
    assert (spec.qkv_bias, spec.qk_norm) == (True, "none")
    assert (spec.rope_interleaved, spec.normalise_top_k) == (False, False)
    assert (spec.shared_d_ff, spec.expert_d_ff) == (192, 64)
    biases = [tensor.name[-6:] for tensor in weights.vectors["blk.0.qkv_bias"]]
    assert biases == ["q.bias", "k.bias", "v.bias"]
    assert weights.dense["blk.1.shared_down"][0].cols == 192
    assert "blk.0.shared_gate" in weights.vectors


def test_qwen2moe_without_its_own_widths_takes_them_from_d_ff(tmp_path: Path) -> None:
    keys = ("expert_feed_forward_length", "expert_shared_feed_forward_length")
    drop = {f"qwen2moe.{key}": None for key in keys}
    _, spec, _ = read(tmp_path, "qwen2moe", metadata=drop, d_ff=192, top_k=2, expert_d_ff=96, shared_d_ff=192)
    assert (spec.expert_d_ff, spec.shared_d_ff) == (96, 192)


def test_qwen3moe_norms_queries_and_keys(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "qwen3moe", head_dim=64)
    assert (spec.qk_norm, spec.qkv_bias) == ("head", False)
    assert (spec.rope_interleaved, spec.normalise_top_k) == (False, True)
    assert spec.heads * spec.head_dim != spec.d_model
    assert weights.vectors["blk.1.k_norm"][0].shape == (64,)


def test_olmoe_norms_whole_rows_of_queries_and_keys(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "olmoe", experts=6, top_k=3, d_ff=64, heads=4, kv_heads=2, head_dim=48)
    assert (spec.architecture, spec.experts, spec.top_k, spec.expert_d_ff) == ("olmoe", 6, 3, 64)
    assert (spec.qk_norm, spec.qkv_bias, spec.shared_d_ff, spec.d_ff) == ("row", False, 0, 0)
    assert (spec.rope_interleaved, spec.normalise_top_k) == (False, False)
    norms = [weights.vectors[f"blk.1.{part}_norm"][0].shape for part in ("q", "k")]
    assert norms == [(4 * 48,), (2 * 48,)]


def test_tied_head_and_rotation_factors(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "llama", tied=True, rope_factors=True)
    assert spec.tied_head and spec.rope_factors
    assert "head" not in weights.dense and weights.vectors["rope_factors"][0].shape == (16,)


@pytest.mark.parametrize(
    ("keys", "scale"),
    [
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, 4.0),
        ({"llama.rope.scale_linear": 2.0}, 2.0),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, 1.0),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 1.0}, 1.0),
        ({}, 1.0),
    ],
)
def test_linear_scaling(tmp_path: Path, keys: dict[str, object], scale: float) -> None:
    assert read(tmp_path, "llama", metadata=keys)[1].rope_linear_scale == scale


def test_optional_keys_have_the_formats_defaults(tmp_path: Path) -> None:
    drop = dict.fromkeys(
        [
            "llama.attention.key_length",
            "llama.attention.value_length",
            "llama.rope.dimension_count",
            "llama.rope.freq_base",
            "general.name",
        ]
    )
    _, spec, _ = read(tmp_path, "llama", metadata=drop, d_model=128, heads=4, head_dim=32)
    assert (spec.head_dim, spec.rope_dim, spec.rope_base, spec.name) == (32, 32, 10000.0, "model")


def test_types_may_differ_between_layers_and_banks(tmp_path: Path) -> None:
    types = {"blk.0.ffn_gate_exps.*": "Q4_0", "blk.1.ffn_down_exps.*": "Q5_1"}
    _, spec, weights = read(tmp_path, "mixtral", quant="Q8_0", types=types)
    formats = {at: [shape.format.name for shape in shapes] for at, shapes in expert_shapes(weights).items()}
    assert formats == {
        (0, "gate_up"): ["Q4_0", "Q8_0"],
        (0, "down"): ["Q8_0"],
        (1, "gate_up"): ["Q8_0", "Q8_0"],
        (1, "down"): ["Q5_1"],
    }
    counted = distinct_blocks(expert_shapes(weights).values(), spec.experts)
    assert sorted(count for _, count in counted) == [4, 4, 4, 4]


def test_equal_blocks_are_counted_together(tmp_path: Path) -> None:
    _, spec, weights = read(tmp_path, "mixtral", layers=3)
    counted = distinct_blocks(expert_shapes(weights).values(), spec.experts)
    assert [(len(shapes), count) for shapes, count in counted] == [(2, 12), (1, 12)]


REFUSED: dict[str, tuple[Family, dict[str, Any], str]] = {
    "unknown architecture": ("llama", {"metadata": {"general.architecture": "gptj"}}, "'gptj'.* not know"),
    "no layer count": ("llama", {"metadata": {"llama.block_count": None}}, "llama.block_count"),
    "no norm epsilon": ("llama", {"metadata": {"llama.attention.layer_norm_rms_epsilon": None}}, "_epsilon"),
    "no heads at all": ("llama", {"metadata": {"llama.attention.head_count": 0}}, "head_count is 0"),
    "uneven heads": ("llama", {"heads": 4, "kv_heads": 3}, "4 attention heads do not share 3"),
    "other value length": ("llama", {"metadata": {"llama.attention.value_length": 16}}, "different lengths"),
    "odd rotation": ("llama", {"metadata": {"llama.rope.dimension_count": 15}}, "15 of 32 dimensions"),
    "rotation base": ("llama", {"metadata": {"llama.rope.freq_base": -1.0}}, "freq_base is -1"),
    "yarn": (
        "qwen3moe",
        {"metadata": {"qwen3moe.rope.scaling.type": "yarn", "qwen3moe.rope.scaling.factor": 4.0}},
        "'yarn', factor 4",
    ),
    "sigmoid gates": ("mixtral", {"metadata": {"llama.expert_gating_func": 2}}, "expert_gating_func = 2"),
    "more chosen than there are": ("mixtral", {"experts": 4, "top_k": 5}, "5 of 4 experts"),
    "no embedding": ("llama", {"drop": ["token_embd.weight"]}, "lacks the tensor token_embd.weight"),
    "a missing matrix": ("llama", {"drop": ["blk.1.attn_v.weight"]}, "lacks the tensor blk.1.attn_v.weight"),
    "a missing norm": ("qwen3moe", {"drop": ["blk.0.attn_k_norm.weight"]}, "blk.0.attn_k_norm.weight"),
    "norms of heads, not of rows": (
        "qwen3moe",
        {"metadata": metadata_of("olmoe", TinyShape()) | {"general.architecture": "olmoe"}},
        "blk.0.attn_q_norm.weight has shape 32, but the metadata asks for 128",
    ),
    "clamped attention": ("olmoe", {"metadata": {"olmoe.attention.clamp_kqv": 8.0}}, "clamp_kqv = 8"),
    "a missing bias": ("qwen2moe", {"drop": ["blk.1.attn_k.bias"]}, "blk.1.attn_k.bias"),
    "a missing bank": ("mixtral", {"drop": ["blk.1.ffn_up_exps.weight"]}, "blk.1.ffn_up_exps.weight"),
    "a missing legacy expert": (
        "mixtral",
        {"legacy_experts": True, "drop": ["blk.1.ffn_up.2.weight"]},
        "blk.1.ffn_up.2.weight",
    ),
    "another shape": (
        "llama",
        {"metadata": {"llama.feed_forward_length": 64}},
        "blk.0.ffn_gate.weight has shape 96 x 128, but the metadata asks for 64 x 128",
    ),
    "another vocabulary in head and embedding": (
        "llama",
        {"types": {"output.weight": "F16"}, "metadata": {"llama.embedding_length": 64}},
        "shape",
    ),
    "tensors nobody asked for": ("llama", {"metadata": {"llama.block_count": 1}}, r"blk\.1\.\S+ .and 8 more"),
    "a ternary type": (
        "mixtral",
        {"types": {"blk.1.ffn_up_exps.*": "TQ2_0"}, "d_model": 256},
        "ffn_up_exps.* TQ2_0",
    ),
    "a lattice type": (
        "mixtral",
        {"types": {"*ffn_up_exps*": "IQ2_XXS"}, "d_model": 256},
        "blk.0.ffn_up_exps.weight has type IQ2_XXS",
    ),
    "a small K-quant": ("llama", {"types": {"*attn_q*": "Q2_K"}, "d_model": 256}, "attn_q.weight .* Q2_K"),
    "rows that are not groups": ("mixtral", {"quant": "F16", "d_ff": 40}, "rows of 40 weights"),
    "experts of one layer in two types": (
        "mixtral",
        {"legacy_experts": True, "types": {"blk.0.ffn_down.1.weight": "Q4_0"}},
        "blk.0.ffn_down.1.weight has type Q4_0, but blk.0.ffn_down.0.weight has Q8_0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(tmp_path: Path, case: str) -> None:
    family, options, message = REFUSED[case]
    with pytest.raises(ModelError, match=message) as caught:
        read(tmp_path, family, **options)
    assert caught.value.hint and caught.value.exit_code == 3
