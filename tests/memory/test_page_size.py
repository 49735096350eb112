from collections.abc import Sequence

import pytest

from ebbtide.engine.memory.page_size import GOOD_WASTE, TOKEN_MULTIPLE, Layouts, choose, evaluate, layouts_of
from ebbtide.kernels.layout import FORMATS, MatrixShape

BF16_KV = 2 * 2
"""Bytes per element of K and V together."""


def moe(d_model: int, d_ff: int, *types: tuple[str, str]) -> Layouts:
    """Expert blocks of a model; `types` = (gate and up, down) of equally many layers each."""
    blocks: list[tuple[Sequence[MatrixShape], int]] = []
    for up_type, down_type in types:
        up = MatrixShape(d_ff, d_model, FORMATS[up_type])
        blocks += [([up, up], 64), ([MatrixShape(d_model, d_ff, FORMATS[down_type])], 64)]
    return layouts_of(blocks, 2)


Q4_K_M = (("Q4_K", "Q4_K"), ("Q4_K", "Q6_K"))
STARTER_Q8 = moe(576, 1536, ("Q8_0", "Q8_0"))
STARTER_Q4 = moe(576, 1536, ("Q4_1", "Q4_1"))
QWEN3_30B = moe(2048, 768, *Q4_K_M)
OLMOE_Q4_0 = moe(2048, 1024, ("Q4_0", "Q4_0"))
OLMOE_Q4_K = moe(2048, 1024, *Q4_K_M)
MIXTRAL = moe(4096, 14336, *Q4_K_M)
QWEN15 = moe(2048, 1408, ("Q4_K", "Q5_0"), ("Q4_K", "Q8_0"))

# KV bytes per token and layer: kv heads x head size.
STARTER_KV, QWEN3_KV, OLMOE_KV, MIXTRAL_KV = (n * BF16_KV for n in (3 * 64, 4 * 128, 16 * 128, 8 * 128))


@pytest.mark.parametrize(
    ("layouts", "kv_bytes", "kib", "full", "reduced"),
    [
        (STARTER_Q8, STARTER_KV, 36, 0.65, 1.6),
        (STARTER_Q4, STARTER_KV, 36, 0, 0),
        (QWEN3_30B, QWEN3_KV, 48, 0.65, 0.89),
        (OLMOE_Q4_0, OLMOE_KV, 128, 0, 0),
        (OLMOE_Q4_K, OLMOE_KV, 128, 1.5, 2.1),
        (MIXTRAL, MIXTRAL_KV, 128, 0.03, 0.04),
    ],
)
def test_known_models(layouts: Layouts, kv_bytes: int, kib: int, full: float, reduced: float) -> None:
    """The sizes and the percentages that were worked out by hand for six models."""
    size = choose(layouts, kv_bytes)
    assert size.page_bytes == kib << 10
    assert 100 * size.full_waste == pytest.approx(full, abs=0.05)
    assert 100 * size.reduced_waste == pytest.approx(reduced, abs=0.08)
    assert size.kv_waste == 0
    assert size.waste <= GOOD_WASTE and not size.reason


def test_a_second_good_size_and_a_bad_one() -> None:
    mixtral, qwen3 = evaluate(64 << 10, MIXTRAL, MIXTRAL_KV), evaluate(128 << 10, QWEN3_30B, QWEN3_KV)
    assert mixtral is not None and mixtral.waste < 0.001
    assert qwen3 is not None and 0.08 < qwen3.waste < 0.20
    assert "expert blocks" in qwen3.reason


@pytest.mark.parametrize("kv_bytes", [STARTER_KV, QWEN3_KV, 1000, 24576])
def test_both_kv_formats_fit_the_page(kv_bytes: int) -> None:
    size = choose(QWEN3_30B, kv_bytes)
    assert size.tokens % TOKEN_MULTIPLE == 0 and size.tokens > 0
    assert size.tokens * kv_bytes <= size.page_bytes
    assert 2 * size.tokens * (kv_bytes // 2) <= size.page_bytes


def test_awkward_shapes_say_why_they_waste() -> None:
    size = choose(QWEN15, OLMOE_KV)
    assert GOOD_WASTE < size.waste <= 0.05
    assert f"{size.page_bytes >> 10} KiB" in size.reason and "%" in size.reason


def test_dense_models_look_at_kv_alone() -> None:
    size = choose(lambda page_bytes: [], STARTER_KV)
    assert size.waste == 0 and size.tokens in (32, 40)


def test_kv_too_wide_for_any_page() -> None:
    with pytest.raises(ValueError, match="no page holds"):
        choose(OLMOE_Q4_0, 64 << 10)
