"""The arms' widths: equal bytes for all, and where they are known by hand, the right ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.precision import arms
from ebbtide.engine.precision.byte_planner import BytePlanner
from ebbtide.engine.precision.costs import WIDTHS, Costs
from ebbtide.engine.precision.paged_arm import PagedArm
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout

F64 = NDArray[np.float64]
LAYERS, EXPERTS = 4, 6


def costs_of(gate: str = "Q8_0", up: str = "Q8_0", down: str = "Q8_0", experts: int = EXPERTS) -> Costs:
    """Blocks of 64 x 128 (gate and up) and 128 x 64."""
    pair = LayerLayouts(
        block_layout(
            [MatrixShape(64, 128, FORMATS[name]) for name in (gate, up)], page_bytes=4096, floor_planes=2
        ),
        block_layout([MatrixShape(128, 64, FORMATS[down])], page_bytes=4096, floor_planes=2),
    )
    return Costs.of([pair] * LAYERS, experts)


KINDS = {
    "8 planes": costs_of(),
    "4 planes": costs_of("Q4_1", "Q4_1", "Q4_1"),
    "uneven": costs_of("Q8_0", "Q5_0", "Q4_0"),
    "one expert": costs_of(experts=1),
}


def damage_of(costs: Costs, seed: int = 0) -> F64:
    """A quarter with each plane, from a start of its own in every block."""
    start = np.random.default_rng(seed).lognormal(0, 2, costs.shape)
    return arms.even_damage(costs) * start[..., None]


def all_arms(costs: Costs, bits: float) -> dict[str, NDArray[np.uint8]]:
    damage, mass = damage_of(costs), np.random.default_rng(1).uniform(0.1, 1, (LAYERS, costs.experts))
    return {
        "uniform": arms.uniform(costs, bits),
        "static": arms.static(damage, mass, costs, bits),
        "paged": PagedArm(costs, bits, damage, mass).widths,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_costs_by_hand(kind: str) -> None:
    costs = KINDS[kind]
    formats = {
        "8 planes": ("Q8_0", "Q8_0", "Q8_0"),
        "4 planes": ("Q4_1",) * 3,
        "uneven": ("Q8_0", "Q5_0", "Q4_0"),
        "one expert": ("Q8_0",) * 3,
    }[kind]
    weights, blocks = 64 * 128, LAYERS * costs.experts
    bits = [FORMATS[name].planes + 32 / 32 * (0.5 if name != "Q4_1" else 1.0) for name in formats]
    assert costs.expert_bytes(costs.full()) == blocks * weights * sum(bits) / 8
    assert costs.bytes_in_16_bits == blocks * 3 * weights * 2
    assert costs.most_bits == sum(FORMATS[name].planes for name in formats) / 3
    assert (costs.block_bytes()[:, :, 0] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [1.0, 1.7, 3.0, 3.9, 4.0, 5.0, 5.5, 6.25, 7.999, 8.0])
def test_equal_bytes(kind: str, bits: float) -> None:
    costs = KINDS[kind]
    if bits > costs.most_bits:
        with pytest.raises(UsageError, match=f"--bits {bits:g} cannot be had"):
            all_arms(costs, bits)
        return
    target = costs.target_bytes(bits)
    one_plane = int(np.diff(costs.block_bytes()[:, :, 1:], axis=2).max())
    for name, widths in all_arms(costs, bits).items():
        assert (widths >= 1).all() and (widths <= costs.full()).all()
        assert target - one_plane < costs.expert_bytes(widths) <= target, name
        assert costs.average_bits(widths) == pytest.approx(bits, abs=0.2)


def test_the_range_of_bits_is_told_with_its_sizes() -> None:
    for bits in (0.5, 8.5, float("nan")):
        with pytest.raises(UsageError) as refused:
            KINDS["8 planes"].target_bytes(bits)
        assert "1 to 8 planes" in str(refused.value) and "MiB to 1 MiB" in str(refused.value)


def test_uniform_is_the_same_everywhere_or_one_more() -> None:
    costs = KINDS["8 planes"]
    for bits in (3, 4, 8):
        assert (arms.uniform(costs, bits) == bits).all()
    widths = arms.uniform(costs, 5.25)
    assert set(widths.ravel()) == {5, 6}
    share = (widths == 6).mean(axis=(1, 2))
    assert (np.abs(share - 0.25) <= 1 / EXPERTS + 0.01).all(), "spread over all layers"
    assert (widths == arms.uniform(costs, 5.25)).all()


def test_a_layout_with_fewer_planes_stays_at_its_own() -> None:
    costs = KINDS["uneven"]
    widths = arms.uniform(costs, costs.most_bits)
    assert (widths[:, 0] == 8).all() and (widths[:, 1] == 4).all()


def planned(damage: F64, costs: Costs, target_bytes: int) -> NDArray[np.uint8]:
    """With a weight of 1 for all blocks."""
    return BytePlanner(damage, costs).widths(np.ones(damage[..., 0].size), target_bytes)


def total(damage: F64, widths: NDArray[np.uint8]) -> float:
    return float(np.take_along_axis(damage, widths.astype(np.int64)[..., None], axis=3).sum())


def test_no_choice_of_as_many_bytes_is_better() -> None:
    """Against all choices of a small bank, where what a byte is worth says how many bytes are spent."""
    few = replace(costs_of(experts=1), planes=np.full((2, 2), 3, np.uint8))
    few = replace(
        few, **{name: getattr(few, name)[:2] for name in ("scale_bytes", "plane_bytes", "weight_bits")}
    )
    damage = damage_of(few, seed=5)
    every = [np.array(q, np.uint8).reshape(few.shape) for q in itertools.product((1, 2, 3), repeat=4)]
    found = set()
    for worth in np.geomspace(1e-4, 10, 30):
        chosen = min(every, key=lambda q: total(damage, q) + worth * few.expert_bytes(q))
        widths = planned(damage, few, few.expert_bytes(chosen))
        assert total(damage, widths) == pytest.approx(total(damage, chosen))
        found.add(widths.tobytes())
    assert len(found) > 4


def test_static_beats_uniform_and_follows_frequency() -> None:
    costs, damage = KINDS["8 planes"], damage_of(KINDS["8 planes"])
    mass = np.ones((LAYERS, EXPERTS))
    static, uniform = arms.static(damage, mass, costs, 5), arms.uniform(costs, 5)
    assert total(damage, static) < total(damage, uniform)
    often = mass.copy()
    often[2, 3] = 1e6
    assert (arms.static(damage, often, costs, 5)[2, :, 3] > static[2, :, 3]).all()
    assert (arms.static(damage, mass, costs, 5, np.ones((LAYERS, 2))) == static).all()
    unit = np.ones((LAYERS, 2))
    unit[0, 1] = 64
    dear = arms.static(damage, mass, costs, 5, unit)
    assert dear[0, 1].sum() > static[0, 1].sum() and dear[0, 0].sum() <= static[0, 0].sum()


def test_without_sensitivity_all_blocks_are_alike() -> None:
    costs = KINDS["8 planes"]
    widths = PagedArm(costs, 5, damage_of(costs), np.ones((LAYERS, EXPERTS)), without="sensitivity").widths
    assert (widths == 5).all()


def test_damage_that_is_not_convex_is_stepped_over() -> None:
    """Two planes more help much, the first of them nothing: either both are given or none."""
    costs = costs_of(experts=1)
    damage = np.zeros((*costs.shape, WIDTHS))
    damage[...] = np.array([10, 8, 8, 1, 0.9, 0.8, 0.7, 0.6, 0.5])
    widths = planned(damage, costs, costs.target_bytes(2.0))
    assert (widths == 3).sum() >= 4 and (widths == 2).sum() <= 1


def test_no_damage_at_all_still_fills_the_bytes() -> None:
    costs = KINDS["8 planes"]
    widths = planned(np.zeros((*costs.shape, WIDTHS)), costs, costs.target_bytes(4.0))
    assert costs.expert_bytes(widths) == costs.target_bytes(4.0)


SPREAD = np.linspace(1, 0, arms.DP_STEPS + 1) ** 3
"""Errors of which few tokens have most, and these are found."""


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_widths(kind: str, found: bool) -> None:
    costs = KINDS[kind]
    damage, mass = damage_of(costs), np.ones((LAYERS, costs.experts))
    remaining = np.tile(SPREAD, (LAYERS, 2, 1)) if found else None
    for bits in (1.0, 2.3, costs.most_bits):
        pairs = arms.dp_pairs(damage, mass, costs, bits, remaining=remaining)
        assert (pairs.low >= 1).all() and (pairs.high <= costs.planes).all()
        assert (pairs.high.astype(int) - pairs.low == 1).all()
        assert (pairs.share >= 0).all() and (pairs.share <= 1).all()
        assert pairs.read_bits(costs) == pytest.approx(bits, abs=1 / arms.DP_STEPS), "planes read"
        chosen = ((pairs.share > 0) & (pairs.share < 1)).sum()
        if bits == 2.3:
            # Blindly mixed widths are worse than whole ones: only the last step may be a part of one.
            assert chosen > LAYERS if found else chosen <= 2
    unit = np.ones((LAYERS, 2))
    unit[2, 1] = 64
    more = mass.copy()
    more[1] *= 50
    averages = [
        pairs.low + pairs.share
        for pairs in (
            arms.dp_pairs(damage, mass, costs, 2.3),
            arms.dp_pairs(damage, mass, costs, 2.3, unit),
            arms.dp_pairs(damage, more, costs, 2.3),
        )
    ]
    assert averages[1][2, 1] > averages[0][2, 1]
    assert averages[2][1].sum() > averages[0][1].sum()


def test_what_is_held_is_the_higher_width_where_it_is_ever_taken() -> None:
    costs = KINDS["uneven"]
    low = np.array([[3, 3], [4, 2], [7, 3], [7, 1]], np.uint8)
    share = np.array([[0.25, 0.0], [0.0, 0.5], [1.0, 1.0], [0.0, 0.75]])
    pairs = arms.Pairs(low, low + np.uint8(1), share)
    held = pairs.held(costs)
    assert held[:, :, 0].tolist() == [[4, 3], [4, 3], [8, 4], [7, 2]]
    tokens = [pairs.widths(costs, share > at) for at in (0.0, 0.3, 0.6, 0.9)]
    by_hand = float(np.mean([costs.average_bits(widths) for widths in tokens]))
    assert pairs.read_bits(costs) == pytest.approx(by_hand) and by_hand < costs.average_bits(held)


def test_the_threshold_lets_the_wanted_share_pass() -> None:
    errors = np.random.default_rng(0).lognormal(size=1000)
    for share in (0.0, 0.1, 0.5, 1.0):
        above = (errors > arms.threshold(errors, share)).mean()
        assert above == pytest.approx(share, abs=0.002)
