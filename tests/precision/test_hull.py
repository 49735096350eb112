"""Hulls against their definition, in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.precision.hull import hull_widths, lower_hull, without_gains

POINTS = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 60), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)
"""Damages in no order, and pages more than the width before (0: in the same page)."""


def exact_hull(damage: list[int], cost: list[int]) -> list[int]:
    """Widths on the hull's lower side: no line between two others passes below them."""
    widths = range(len(cost))
    damage = [max(damage[width:]) for width in widths]
    own = [width for width in widths if width == len(cost) - 1 or cost[width + 1] > cost[width]]

    def is_above(width: int, left: int, right: int) -> bool:
        share = Fraction(cost[width] - cost[left], cost[right] - cost[left])
        return damage[width] > damage[left] + share * (damage[right] - damage[left])

    pairs = [(left, right) for left in own for right in own if left < right]
    return [
        width
        for width in own
        if not any(left < width < right and is_above(width, left, right) for left, right in pairs)
    ]


@given(POINTS)
def test_is_the_lower_convex_hull(points: tuple[list[int], list[int]]) -> None:
    damage, cost = points[0], np.cumsum(points[1])
    hull = lower_hull(np.array(damage, np.float64), cost)
    assert hull.tolist() == exact_hull(damage, cost.tolist())


@given(st.lists(POINTS, min_size=1, max_size=6), st.data())
def test_many_blocks_are_as_each_alone_within_its_bounds(
    blocks: list[tuple[list[int], list[int]]], data: st.DataObject
) -> None:
    """Different counts of widths are made equal as planes are: wider ones repeat cost and damage."""
    damage, cost, floors, most = [], [], [], []
    for damages, pages in blocks:
        more = 9 - len(damages)
        damage.append(damages + [0] * more)
        cost.append(np.cumsum(pages + [0] * more))
        most.append(data.draw(st.integers(0, len(damages) - 1)))
        floors.append(data.draw(st.integers(0, most[-1])))
    hulls = hull_widths(
        without_gains(np.array(damage, np.float64)),
        np.array(cost),
        np.array(floors, np.uint8),
        np.array(most, np.uint8),
    )
    for row, block in enumerate(hulls.tolist()):
        low, high = floors[row], most[row] + 1
        steady = without_gains(np.array(damage[row], np.float64))
        alone = low + lower_hull(steady[low:high], cost[row][low:high])
        assert block == (alone[::-1].tolist() + [int(alone[0])] * 9)[:9]


def test_a_factor_changes_no_hull() -> None:
    rng = np.random.default_rng(3)
    damage = np.sort(rng.random((50, 9)))[:, ::-1]
    cost = np.cumsum(rng.integers(1, 5, (50, 9)), axis=1)
    floors, most = np.full(50, 2, np.uint8), np.full(50, 8, np.uint8)
    plain, scaled = (hull_widths(damage * by, cost, floors, most) for by in (1.0, 37.7))
    assert (plain == scaled).all()


@pytest.mark.parametrize(
    ("damage", "cost", "hull"),
    [
        ([9, 4, 1, 0], [0, 1, 2, 3], [0, 1, 2, 3]),  # all of it
        ([9, 6, 3, 0], [0, 1, 2, 3], [0, 1, 2, 3]),  # one edge: its points count
        ([9, 9, 1, 0], [0, 1, 2, 3], [0, 2, 3]),  # a width that is no better than none
        ([9, 4, 1, 0], [0, 2, 2, 4], [0, 2, 3]),  # one page holds widths 1 and 2
        ([9, 4, 1, 0], [3, 3, 3, 3], [3]),  # the floor holds everything
        ([0, 0, 0, 0], [0, 1, 2, 3], [0, 1, 2, 3]),  # nothing is ever lost
        ([9, 1, 4, 0], [0, 1, 2, 3], [0, 1, 3]),  # noise: width 1 is as bad as width 2, and cheaper
    ],
)
def test_by_hand(damage: list[int], cost: list[int], hull: list[int]) -> None:
    assert lower_hull(np.array(damage, np.float64), np.array(cost)).tolist() == hull
