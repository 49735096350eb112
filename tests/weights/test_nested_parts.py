"""Parts that nest: against every way to cut small histograms, and on histograms with little in them."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.engine.weights.nested_parts import F64, I64, best_edges, halved, nested_edges, part_means

masses = st.lists(st.integers(0, 50), min_size=2, max_size=9).map(lambda found: np.array(found, np.float64))


def cost(mass: F64, edges: I64) -> float:
    """Sum of mass * (value - mean of its part)^2, from its definition."""
    values, total = np.arange(len(mass)), 0.0
    for start, end in pairwise(edges):
        inside, weight = values[start:end], mass[start:end]
        if weight.sum():
            total += float((weight * (inside - np.average(inside, weights=weight)) ** 2).sum())
    return total


def least_cost(mass: F64, count: int) -> float:
    inner = combinations_with_replacement(range(len(mass) + 1), count - 1)
    return min(cost(mass, np.array([0, *cuts, len(mass)])) for cuts in inner)


@given(mass=masses, count=st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_no_other_parts_cost_less(mass: F64, count: int) -> None:
    edges = best_edges(mass, count)
    assert cost(mass, edges) == pytest.approx(least_cost(mass, count), abs=1e-9)


@given(mass=masses, count=st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_every_part_is_cut_where_it_costs_least(mass: F64, count: int) -> None:
    edges = best_edges(mass, count)
    cut = halved(mass, edges)
    for part in range(count):
        start, end = int(edges[part]), int(edges[part + 1])
        inside = mass[start:end]
        assert cost(inside, cut[2 * part : 2 * part + 3] - start) == pytest.approx(
            least_cost(inside, 2) if end > start else 0.0, abs=1e-9
        )


@given(mass=masses, planes=st.integers(1, 5), seed_width=st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_parts_cover_all_bins_in_order(mass: F64, planes: int, seed_width: int) -> None:
    edges = nested_edges(mass, planes, seed_width)
    assert len(edges) == 2**planes + 1 and edges[0] == 0 and edges[-1] == len(mass)
    assert (np.diff(edges) >= 0).all()


def test_fewer_bits_are_every_second_edge() -> None:
    mass = np.random.default_rng(0).integers(0, 1000, 300).astype(np.float64)
    longest = nested_edges(mass, 7, 3)
    for planes in range(3, 7):
        np.testing.assert_array_equal(longest[:: 1 << (7 - planes)], nested_edges(mass, planes, 3))


def test_parts_are_as_many_as_values_where_there_are_enough() -> None:
    mass = np.zeros(64)
    mass[[3, 10, 11, 40, 63]] = [5, 1, 7, 2, 9]
    assert cost(mass, nested_edges(mass, 3, 3)) == 0
    assert cost(mass, nested_edges(mass, 4, 1)) == 0


@pytest.mark.parametrize("values", range(1, 9))
def test_few_values_are_told_apart_by_the_first_bits(values: int) -> None:
    mass = np.zeros(64)
    mass[np.arange(values) * 7] = 1
    longest = nested_edges(mass, 6, 3)
    for width in range(1, 7):
        filled = int(part_means(mass, longest[:: 1 << (6 - width)])[1].sum())
        assert filled == min(values, 1 << width)


def test_a_light_value_far_out_is_not_lost_beside_heavy_ones() -> None:
    """Masses as far apart as whole numbers in f64 allow, and an offset that squares would drown in."""
    mass = np.zeros(1024)
    mass[[1000, 1001, 1003]] = [2.0**51, 2.0**50, 1.0]
    np.testing.assert_array_equal(part_means(mass, best_edges(mass, 4))[1].sum(), 3)


def test_nothing_at_all_has_parts_without_anything() -> None:
    means, filled = part_means(np.zeros(16), nested_edges(np.zeros(16), 3, 2))
    assert not filled.any() and not means.any()


def test_means_weigh_values_by_their_mass() -> None:
    means, filled = part_means(np.array([1.0, 3.0, 0.0, 2.0]), np.array([0, 2, 3, 4]))
    np.testing.assert_array_equal(means, [0.75, 0.0, 3.0])
    np.testing.assert_array_equal(filled, [True, False, True])
