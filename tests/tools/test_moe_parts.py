"""The parts of random mixtures of experts, each against what it promises, and the figures by hand."""

import numpy as np
import pytest

from tests.helpers.moe.figures import carry_over, hot_share, lru_miss_rate, share_for
from tests.helpers.moe.kinds import kind_of
from tests.helpers.moe.shapes import SHAPES, tiny
from tests.helpers.moe.windows import GAIN, head_vectors, tokens_seen


@pytest.mark.parametrize("name", SHAPES)
def test_rotation_alone_makes_a_window(name: str) -> None:
    shape = SHAPES[name]
    sizes, context = shape.sizes, 4096
    windows = list(shape.windows)
    queries, key, scale = head_vectors(windows, sizes.head_dim, shape.rope_base)
    angles = shape.rope_base ** (-np.arange(sizes.head_dim // 2) * 2 / sizes.head_dim)
    distances = np.arange(context)
    for query, window in zip(queries, windows, strict=True):
        energy = (query * key)[: sizes.head_dim // 2] * scale**2 / np.sqrt(sizes.head_dim)
        scores = np.cos(np.outer(distances, angles)) @ energy
        assert scores[0] == pytest.approx(GAIN, rel=0.1)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        ideal = np.exp(-((distances / window) ** 2))
        assert abs(shares - ideal / ideal.sum()).sum() < 0.35  # of 2
        assert shares[distances > 4 * window].sum() < 0.1
        assert 1 / (shares**2).sum() == pytest.approx(tokens_seen(window), rel=0.3)


def test_rows_that_are_no_k_quant_blocks_fall_back_as_in_llama_cpp() -> None:
    assert kind_of("blk.0.ffn_down_exps.weight", (60, 2048, 1408), "Q4_K") == "Q5_0"
    assert kind_of("blk.0.ffn_down_exps.weight", (60, 2048, 1408), "Q3_K") == "IQ4_NL"
    assert kind_of("blk.0.ffn_gate_exps.weight", (60, 1408, 2048), "Q4_K") == "Q4_K"
    assert kind_of("output.weight", (512, 2048), "Q4_0") == "Q6_K"
    assert kind_of("output.weight", (512, 160), "Q4_K") == "Q8_0"
    assert kind_of("output.weight", (512, 2048), "Q8_0") == "Q8_0"
    assert kind_of("blk.0.ffn_gate_inp.weight", (60, 2048), "Q4_K") == "F32"
    assert kind_of("blk.0.attn_norm.weight", (2048,), "Q8_0") == "F32"


def test_tiny_shapes_keep_family_and_routers() -> None:
    for shape in SHAPES.values():
        small = tiny(shape)
        assert (small.family, small.mix, small.windows) == (shape.family, shape.mix, shape.windows)
        assert sum(vars(small.mix).values()) == pytest.approx(1)


CHOICES = np.array([[0, 1], [1, 2], [1, 2], [4, 5], [0, 1]])


def test_carry_over() -> None:
    assert carry_over(CHOICES, 6) == (1 + 2 + 0 + 0) / 8
    assert np.isnan(carry_over(CHOICES[:1], 6))


def test_share_of_experts_for_a_mass() -> None:
    assert share_for(CHOICES, 6, 0.9) == 4 / 6  # of 10 choices 4, 2, 2, 1, 1
    assert share_for(CHOICES, 6, 0.95) == 5 / 6
    assert share_for(CHOICES, 6, 0.4) == 1 / 6


def test_hot_share() -> None:
    assert hot_share(CHOICES, CHOICES, 6, 1 / 6) == 0.4
    assert hot_share(CHOICES[:3], CHOICES[3:], 6, 0.5) == 0.5


def test_lru_looks_up_a_token_at_once() -> None:
    assert lru_miss_rate(CHOICES, 6, 6) == 5 / 10
    assert lru_miss_rate(CHOICES, 6, 2) == (2 + 1 + 0 + 2 + 2) / 10
    assert lru_miss_rate(CHOICES, 6, 3) == (2 + 1 + 0 + 2 + 2) / 10
    assert lru_miss_rate(np.array([[0, 1], [2, 3], [0, 1]]), 4, 3) == (2 + 2 + 1) / 6
    with pytest.raises(ValueError, match="do not fit"):
        lru_miss_rate(CHOICES, 6, 1)
