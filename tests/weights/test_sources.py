"""Both weight sources against the tensors of the file, dequantised by the gguf package."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, quants

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.model.mapping import KINDS
from ebbtide.engine.weights.codes import F32
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.open import open_weights, read_spec
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.planes import dequantise
from tests.helpers.paged import read_block
from tests.helpers.tiny_models import Family, write_tiny

PAGE = 8192
K_SHAPE: dict[str, Any] = {"d_model": 256, "heads": 8, "d_ff": 256, "expert_d_ff": 256}
MODELS: dict[str, tuple[Family, dict[str, Any]]] = {
    "dense": ("llama", {"quant": "Q4_0"}),
    "tied": ("llama", {"quant": "Q5_0", "tied": True, "rope_factors": True}),
    "mixtral": ("mixtral", {"quant": "Q8_0", "experts": 5}),
    "legacy": ("mixtral", {"quant": "Q4_1", "legacy_experts": True}),
    "olmoe": ("olmoe", {"quant": "Q8_0", "experts": 3}),
    "qwen2moe": ("qwen2moe", {"quant": "Q5_1"}),
    "tables": ("mixtral", {"quant": "IQ4_NL", "types": {"*up_exps*": "MXFP4"}, "experts": 3}),
    "as in Q3_K_M": ("mixtral", {"quant": "Q3_K", "types": {"*down_exps*": "Q4_K"}, "experts": 3, **K_SHAPE}),
    "nested scales of tables": ("mixtral", {"quant": "IQ4_XS", "experts": 3, **K_SHAPE}),
    "qwen3moe, types differ": (
        "qwen3moe",
        {
            "quant": "Q4_K",
            "types": {
                "blk.*.ffn_up_exps.*": "Q6_K",
                "blk.1.ffn_down_exps.*": "Q5_K",
                "blk.0.attn_v.*": "Q8_0",
                "blk.*.ffn_gate_inp.*": "F16",
            },
            "head_dim": 40,
            **K_SHAPE,
            "heads": 32,
        },
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, options = MODELS[request.param]
    return write_tiny(tmp_path_factory.mktemp("model") / "m.gguf", family, **options)


@pytest.fixture(scope="module")
def pack(model: Path) -> Path:
    return write_pack(model, model.with_suffix(".pack.gguf"), page_bytes=PAGE)


@pytest.fixture(params=["gguf", "pack"])
def source(request: pytest.FixtureRequest, model: Path, pack: Path) -> GgufSource | PackSource:
    return open_weights(model if request.param == "gguf" else pack, page_bytes=PAGE)


def tensors(model: Path) -> dict[str, F32]:
    return {t.name: quants.dequantize(t.data, t.tensor_type) for t in GGUFReader(model).tensors}


def same(found: F32, expected: F32) -> bool:
    return found.shape == expected.shape and bool((found.view(np.uint32) == expected.view(np.uint32)).all())


def test_dense_blocks_hold_their_tensors(source: GgufSource | PackSource, model: Path) -> None:
    wanted = tensors(model)
    parts: dict[str, tuple[str, ...]] = {"qkv": ("attn_q", "attn_k", "attn_v"), "attn_out": ("attn_output",)}
    parts |= {"down": ("ffn_down",)}
    parts |= {"gate_up": ("ffn_gate", "ffn_up"), "shared_gate_up": ("ffn_gate_shexp", "ffn_up_shexp")}
    parts |= {"shared_down": ("ffn_down_shexp",)}
    blocks = {f"blk.{i}.{k}": [f"blk.{i}.{p}.weight" for p in v] for i in (0, 1) for k, v in parts.items()}
    blocks |= {"embedding": ["token_embd.weight"], "head": ["output.weight"]}
    seen = 0
    for name, members in blocks.items():
        if source.has(name):
            layout = source.dense_layout(name)
            block = np.zeros(layout.span_bytes, np.uint8)
            source.read_dense(name, block)
            for view, member in zip(layout.views, members, strict=True):
                assert same(dequantise(block, view), wanted[member]), member
            seen += layout.span_bytes
    assert source.has("head") == ("output.weight" in wanted)
    assert source.has("blk.0.gate_up") == ("blk.0.ffn_gate.weight" in wanted)
    assert source.has("blk.1.shared_down") == ("blk.1.ffn_down_shexp.weight" in wanted)
    assert seen < source.static_bytes < seen + 100_000


def test_strips_read_one_by_one_make_the_block(source: GgufSource | PackSource) -> None:
    layout = source.dense_layout("embedding")
    (view,) = layout.views
    whole, made = (np.zeros(layout.span_bytes, np.uint8) for _ in range(2))
    source.read_dense("embedding", whole)
    for strip in reversed(range(view.shape.strips)):
        parts = [made[at : at + nbytes] for at, nbytes in view.strip(strip)]
        source.read_strip("embedding", strip, parts)
        assert all(part.any() for part in parts)
    assert (made == whole).all()
    source.check_dense("embedding")


def test_vectors_hold_their_tensors(source: GgufSource | PackSource, model: Path) -> None:
    wanted = tensors(model)
    names: dict[str, tuple[str, ...]] = {"attn_norm": ("attn_norm.weight",), "ffn_norm": ("ffn_norm.weight",)}
    names |= {"qkv_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias"), "router": ("ffn_gate_inp.weight",)}
    names |= {"q_norm": ("attn_q_norm.weight",), "k_norm": ("attn_k_norm.weight",)}
    names |= {"shared_gate": ("ffn_gate_inp_shexp.weight",)}
    vectors = {f"blk.{i}.{k}": [f"blk.{i}.{p}" for p in v] for i in (0, 1) for k, v in names.items()}
    vectors |= {"final_norm": ["output_norm.weight"], "rope_factors": ["rope_freqs.weight"]}
    for name, members in vectors.items():
        assert source.has(name) == (members[0] in wanted)
        if source.has(name):
            found = [wanted[member] for member in members]
            expected = np.concatenate(found) if len(found) > 1 else found[0]
            assert same(source.vector(name), expected.astype(np.float32)), name


def expert_tensor(wanted: dict[str, F32], layer: int, part: str, expert: int) -> F32:
    legacy = f"blk.{layer}.ffn_{part}.{expert}.weight"
    return wanted[legacy] if legacy in wanted else wanted[f"blk.{layer}.ffn_{part}_exps.weight"][expert]


def test_experts_hold_their_tensors(source: GgufSource | PackSource, model: Path) -> None:
    wanted, parts = tensors(model), {"gate_up": ("gate", "up"), "down": ("down",)}
    for layer in range(source.spec.layers if source.spec.experts else 0):
        for kind in KINDS:
            layout = source.expert_layout(layer, kind)
            assert layout.page_bytes == PAGE and layout.floor_planes == 2
            for expert in range(source.spec.experts):
                block, nbytes = read_block(source, layer, expert, kind)
                assert nbytes > 0
                for view, part in zip(layout.views, parts[kind], strict=True):
                    assert same(dequantise(block, view), expert_tensor(wanted, layer, part, expert))


def test_extents_read_one_by_one_make_the_block(source: GgufSource | PackSource) -> None:
    if source.spec.dense_ffn:
        assert not any(source.has(f"blk.{layer}.router") for layer in range(source.spec.layers))
        return
    for kind in KINDS:
        layout = source.expert_layout(1, kind)
        whole, _ = read_block(source, 1, 2, kind)
        count = len(layout.extent_ends)
        pieces = [read_block(source, 1, 2, kind, i, i)[0] for i in range(count)]
        np.testing.assert_array_equal(np.bitwise_or.reduce(pieces), whole)
        cut = count // 2
        parts = [read_block(source, 1, 2, kind, *ends)[0] for ends in ((0, cut - 1), (cut, count - 1))]
        np.testing.assert_array_equal(parts[0] | parts[1], whole)
        floor = dequantise(pieces[0], layout.views[0], 2)
        np.testing.assert_array_equal(floor, dequantise(whole, layout.views[0], 2))


def test_many_threads_may_read(source: GgufSource | PackSource) -> None:

    def read(i: int) -> bytes:
        if source.spec.experts:
            return read_block(source, 0, i % source.spec.experts, "gate_up")[0].tobytes()
        name = ("embedding", "blk.0.qkv", "blk.1.down")[i % 3]
        block = np.zeros(source.dense_layout(name).span_bytes, np.uint8)
        source.read_dense(name, block)
        return block.tobytes()

    alone = [read(i) for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(12))) == alone


def test_targets_must_fit_the_extents(source: GgufSource | PackSource) -> None:
    if not source.spec.dense_ffn:
        with pytest.raises(ValueError, match="bytes of targets"):
            source.read_expert(0, 0, "down", 0, 0, [(0, PAGE * 1000)])
        with pytest.raises(ValueError, match=r"extents 0\.\.99"):
            source.read_expert(0, 0, "down", 0, 99, [(0, PAGE)])
    with pytest.raises(KeyError):
        source.dense_layout("blk.0.nothing")


def test_a_pack_reads_only_what_is_asked(model: Path, pack: Path) -> None:
    source = open_weights(pack)
    assert isinstance(source, PackSource)
    if source.spec.experts:
        layout = source.expert_layout(0, "down")
        assert read_block(source, 0, 1, "down", 0, 0)[1] == layout.pages_at_width(2) * PAGE
        assert read_block(source, 0, 1, "down")[1] == layout.span_bytes


def test_a_pack_keeps_the_metadata_and_knows_its_model(model: Path, pack: Path) -> None:
    original, packed = open_gguf(model), open_gguf(pack)
    for key in original.metadata:
        np.testing.assert_array_equal(packed.metadata[key], original.metadata[key])
        assert packed.metadata.types[key] == original.metadata.types[key]
    source = PackSource(packed)
    assert source.spec == GgufSource(original).spec == read_spec(packed) == read_spec(original)
    assert source.matches(original)
    model.touch()
    assert not source.matches(open_gguf(model))


def test_float_weights_are_read_with_a_notice_of_their_error(tmp_path: Path) -> None:
    types = {"blk.*.ffn_up_exps.*": "F16", "output.weight": "BF16", "blk.0.attn_q.*": "F32"}
    model = write_tiny(tmp_path / "m.gguf", "mixtral", quant="Q8_0", types=types)
    pack = open_weights(write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE))
    plain = open_weights(model, page_bytes=PAGE)
    wanted = tensors(model)
    for source in (pack, plain):
        block, _ = read_block(source, 0, 1, "gate_up")
        gate, up = (dequantise(block, view) for view in source.expert_layout(0, "gate_up").views)
        assert same(gate, wanted["blk.0.ffn_gate_exps.weight"][1])
        exact = wanted["blk.0.ffn_up_exps.weight"][1].astype(np.float32)
        noise = np.square(up - exact, dtype=np.float64).sum()
        assert 10 * np.log10(np.square(exact, dtype=np.float64).sum() / noise) > 44
    assert [notice.split()[0] for notice in pack.notices] == ["BF16", "F16", "F32"]
    assert all("dB" in notice for notice in pack.notices)
    assert any(notice.startswith("F16") for notice in plain.notices)
