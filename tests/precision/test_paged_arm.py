"""The arm that follows the routing: what it knows, when it moves, and that it always takes the same bytes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.messages import Signal
from ebbtide.engine.precision import arms
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.paged_arm import EVERY_TOKENS, PagedArm
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout

LAYERS, EXPERTS = 3, 8
TARGET_BITS = 4.5


def costs_of(gate: str = "Q8_0") -> Costs:
    shapes = [MatrixShape(64, 128, FORMATS[name]) for name in (gate, "Q8_0")]
    pair = LayerLayouts(
        block_layout(shapes, page_bytes=4096, floor_planes=2),
        block_layout([MatrixShape(128, 64, FORMATS["Q8_0"])], page_bytes=4096, floor_planes=2),
    )
    return Costs.of([pair] * LAYERS, EXPERTS)


COSTS = costs_of()
RNG = np.random.default_rng(3)
DAMAGE = arms.even_damage(COSTS) * RNG.lognormal(0, 1, COSTS.shape)[..., None]
MASS = RNG.uniform(0.05, 0.3, (LAYERS, EXPERTS))


def arm(without: Signal = "", costs: Costs = COSTS, **fields: Any) -> PagedArm:
    damage = arms.even_damage(costs) * np.ones(costs.shape)[..., None] if costs is not COSTS else DAMAGE
    return PagedArm(costs, TARGET_BITS, damage, MASS, without=without, **fields)


def route(paged: PagedArm, experts: tuple[int, int], tokens: int = EVERY_TOKENS) -> NDArray[np.uint8]:
    """A pass whose tokens all choose these two, and the widths after it."""
    chosen = np.tile(np.array(experts, np.int32), (tokens, 1))
    rows = SimpleNamespace(chosen=chosen, gates=np.full(chosen.shape, 0.5, np.float32))
    at: Any = SimpleNamespace(rows=rows)
    for layer in range(LAYERS):
        paged.routed(layer, at)
    paged.replan()
    return paged.widths


def test_it_begins_as_static_and_moves_to_what_is_routed() -> None:
    paged = arm()
    before = paged.widths.astype(int)
    assert (before == arms.static(DAMAGE, MASS, COSTS, TARGET_BITS)).all()
    for _ in range(8):
        route(paged, (2, 5))
    moved = paged.widths.astype(int) - before
    asked, others = moved[:, :, [2, 5]], np.delete(moved, [2, 5], axis=2)
    assert (asked >= 0).all() and asked.sum() > 4 and others.sum() < 0


@pytest.mark.parametrize("gate", ["Q8_0", "Q4_0"])
def test_equal_bytes_at_every_moment(gate: str) -> None:
    costs = costs_of(gate)
    paged, rng = arm(costs=costs), np.random.default_rng(1)
    one_plane = int(np.diff(costs.block_bytes()[:, :, 1:], axis=2).max())
    target, seen = costs.target_bytes(TARGET_BITS), set()
    for _ in range(30):
        first = int(rng.integers(EXPERTS))
        widths = route(paged, (first, (first + 1) % EXPERTS))
        seen.add(widths.tobytes())
        assert (widths >= 1).all() and (widths <= costs.full()).all()
        assert target - one_plane < costs.expert_bytes(widths) <= target
    assert len(seen) > 5


def test_a_new_text_begins_anew() -> None:
    paged = arm()
    first = paged.widths
    after = [route(paged, (1, 4)) for _ in range(6)]
    assert (after[-1] != first).any()
    paged.begin()
    assert (paged.widths == first).all()
    assert [(route(paged, (1, 4)) == widths).all() for widths in after] == [True] * 6


@pytest.mark.parametrize("without", ["movement", "routing"])
def test_without_movement_or_routing_it_stays(without: Signal) -> None:
    paged = arm(without)
    before = paged.widths
    even = np.repeat(MASS.mean(axis=1, keepdims=True), EXPERTS, axis=1)
    mass = MASS if without == "movement" else even
    assert (before == arms.static(DAMAGE, mass, COSTS, TARGET_BITS)).all()
    for _ in range(8):
        assert (route(paged, (2, 5)) == before).all()


def test_without_sensitivity_only_routing_counts() -> None:
    unit = np.ones((LAYERS, 2))
    unit[0] = 1e6
    paged, other = arm("sensitivity"), arm("sensitivity", unit=unit)
    assert (paged.widths == other.widths).all(), "what layers cost is sensitivity, too"
    for _ in range(40):
        route(paged, (2, 5))
    widths = paged.widths.astype(int)
    asked, others = widths[:, :, [2, 5]], np.delete(widths, [2, 5], axis=2)
    assert asked.min() >= others.max() and asked.mean() > others.mean()
    assert (arm().widths != arm("sensitivity").widths).any()


def test_without_residuals_it_is_the_same() -> None:
    assert (arm("residual").widths == arm().widths).all()


def test_units_make_a_layer_dear() -> None:
    unit = np.ones((LAYERS, 2))
    unit[1, 0] = 64
    assert arm(unit=unit).widths[1, 0].sum() > arm().widths[1, 0].sum() + EXPERTS
