"""Routing mass: decay, blending, and that routing is counted once in what a plan minimises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.routing_mass import F32, I32, RoutingMass, block_weights

LAYERS, EXPERTS, TOP = 3, 8, 2


def routed(seed: int, tokens: int) -> tuple[I32, F32]:
    """Choices i32[layers, tokens, k] (different experts a token) and gates that sum to 1."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((LAYERS, tokens, EXPERTS)).argsort(axis=2)[..., :TOP].astype(np.int32)
    gates = rng.random((LAYERS, tokens, TOP)).astype(np.float32)
    return chosen, gates / gates.sum(axis=2, keepdims=True)


def test_is_the_decayed_mean_of_squared_gates() -> None:
    chosen, gates = routed(0, 50)
    routing = RoutingMass(LAYERS, EXPERTS, 10, prior=np.zeros((LAYERS, EXPERTS)), prior_tokens=1e-9)
    routing.note_pass(chosen, gates)
    age = 0.5 ** (np.arange(49, -1, -1) / 10)
    for layer, expert in np.ndindex(LAYERS, EXPERTS):
        squares = np.where(chosen[layer] == expert, gates[layer].astype(float) ** 2, 0).sum(axis=1)
        assert routing.mass()[layer, expert] == pytest.approx((squares * age).sum() / age.sum())


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.booleans())
def test_how_tokens_are_cut_into_passes_does_not_matter(cuts: list[int], by_layer: bool) -> None:
    chosen, gates = routed(1, sum(cuts))
    whole, parts = RoutingMass(LAYERS, EXPERTS, 16), RoutingMass(LAYERS, EXPERTS, 16)
    whole.note_pass(chosen, gates)
    ends = np.cumsum(cuts)
    for start, end in zip(ends - cuts, ends, strict=True):
        if by_layer:
            for layer in range(LAYERS):
                parts.note(layer, chosen[layer, start:end], gates[layer, start:end])
        else:
            parts.note_pass(chosen[:, start:end], gates[:, start:end])
    np.testing.assert_allclose(parts.mass(), whole.mass(), rtol=1e-12)


def test_a_half_life_halves() -> None:
    routing = RoutingMass(1, 2, 100, prior=np.zeros((1, 2)), prior_tokens=1e-9)
    one, other = np.zeros((1, 1), np.int32), np.ones((100, 1), np.int32)
    routing.note(0, one, np.ones((1, 1), np.float32))
    before = routing.mass()[0, 0] * 1.0
    routing.note(0, other, np.ones((100, 1), np.float32))
    tokens = 0.5 + (1 - 0.5) / (1 - 0.5**0.01)
    assert before == pytest.approx(1.0) and routing.mass()[0, 0] == pytest.approx(0.5 / tokens)


def test_the_prior_counts_like_its_tokens() -> None:
    prior = np.array([[0.5, 0.1]])
    routing = RoutingMass(1, 2, 1e9, prior=prior, prior_tokens=10)
    assert (routing.mass() == prior).all()
    routing.note(0, np.ones((30, 1), np.int32), np.ones((30, 1), np.float32))
    np.testing.assert_allclose(routing.mass(), [[5 / 40, 31 / 40]], rtol=1e-6)


def test_without_a_prior_unknown_experts_weigh_like_the_mean() -> None:
    routing = RoutingMass(2, 4, 1e9, prior_tokens=30)
    assert (routing.mass() == 0.25).all()
    routing.note(1, np.zeros((30, 1), np.int32), np.full((30, 1), 0.5, np.float32))
    assert (routing.mass()[0] == 0.25).all()
    mean = 0.25 / 4
    np.testing.assert_allclose(routing.mass()[1], [(0.25 + mean) / 2] + [mean / 2] * 3, rtol=1e-6)


def test_routing_is_counted_once() -> None:
    """Mass times damage per unit of mass is the error that was really made, however often an expert is used.

    Errors of single weights are independent here, so that the squared error of a row is the sum over its
    columns: what the formula of the damage takes for granted.
    """
    rng = np.random.default_rng(4)
    tokens, columns = 4000, 6
    chosen = np.where(rng.random((tokens, 1)) < 0.9, 0, 1).astype(np.int32)
    gates = rng.uniform(0.2, 1.0, (tokens, 1)).astype(np.float32)
    inputs = rng.normal(0, [1.0, 2.0, 0.5, 1.0, 3.0, 0.1], (tokens, columns))
    lost = rng.normal(0, 0.1, (2, columns))
    g2 = np.square(gates[:, 0].astype(float))
    made, predicted = np.zeros(2), np.zeros(2)
    routing = RoutingMass(1, 2, 1e12, prior=np.zeros((1, 2)), prior_tokens=1e-9)
    routing.note(0, chosen, gates)
    for expert in range(2):
        here = chosen[:, 0] == expert
        moments = (g2[here, None] * inputs[here] ** 2).sum(axis=0) / g2[here].sum()
        per_mass = float((moments * lost[expert] ** 2).sum())
        made[expert] = (g2[here, None] * (inputs[here] * lost[expert]) ** 2).sum() / tokens
        predicted[expert] = routing.mass()[0, expert] * per_mass
    np.testing.assert_allclose(predicted, made, rtol=1e-6)
    assert made[0] > 3 * made[1]


def test_hot_experts_have_higher_floors_and_keep_them() -> None:
    routing = RoutingMass(1, 4, 1e9, prior=np.array([[0.5, 0.48, 0.1, 0.1]]), prior_tokens=100)
    base, most = np.full((1, 2, 4), 3, np.uint8), np.full((1, 2, 4), 4, np.uint8)
    assert routing.floors(base, 0.4, 2).tolist() == [[[5, 3, 3, 3]] * 2]
    routing.note(0, np.ones((10, 1), np.int32), np.ones((10, 1), np.float32))
    mass = routing.mass()[0]
    assert mass[1] > mass[0]
    assert routing.floors(base, 0.4, 2, most).tolist() == [[[4, 3, 3, 3]] * 2]
    routing.note(0, np.ones((200, 1), np.int32), np.ones((200, 1), np.float32))
    assert routing.floors(base, 0.4, 2).tolist() == [[[3, 5, 3, 3]] * 2]


def test_weights_of_blocks_are_in_the_order_of_the_page_table() -> None:
    mass: F64 = np.arange(1.0, 7.0).reshape(2, 3)
    residual, unit = np.array([1.0, 0.5]), np.array([[1.0, 10.0], [100.0, 1000.0]])
    weights = block_weights(mass, residual, unit).reshape(2, 2, 3)
    for layer, kind, expert in np.ndindex(2, 2, 3):
        expected = mass[layer, expert] * residual[layer] * unit[layer, kind]
        assert weights[layer, kind, expert] == expected
    assert block_weights(mass).tolist() == [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="not of 2 layers with 4 experts"):
        RoutingMass(2, 4, 100, prior=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="above 0 tokens"):
        RoutingMass(2, 4, 0)
