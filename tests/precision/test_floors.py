import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.precision.floors import hot_experts, measured_floors, raised


@pytest.mark.parametrize(
    ("damage", "planes", "floor"),
    [
        ([100, 60, 9, 2, 0], 4, 2),
        ([100, 60, 10, 2, 0], 4, 2),  # just tolerated
        ([100, 60, 11, 2, 0], 4, 3),
        ([100, 5, 11, 2, 0], 4, 3),  # a narrow width that is better by chance does not count
        ([100, 60, 50, 40, 30], 4, 4),  # nothing is tolerated: all planes
        ([100, 5, 4, 1, 0], 4, 1),  # never without any plane
        ([100, 60, 0, 0, 0], 2, 2),  # a block of two planes; wider entries repeat
        ([0, 0, 0, 0, 0], 4, 1),  # nothing ever comes in
    ],
)
def test_floors_come_from_damage(damage: list[int], planes: int, floor: int) -> None:
    assert measured_floors(np.array([damage], np.float64), np.array([planes], np.uint8), 0.1) == [floor]


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=8), st.floats(0.05, 1.0))
def test_hot_experts_are_the_heaviest_that_carry_the_share(mass: list[float], share: float) -> None:
    hot = hot_experts(np.array([mass]), share)[0]
    stand_out = np.array(mass) >= 1.25 * np.mean(mass)
    assert not (hot & ~stand_out).any()
    if hot.any():
        assert min(np.array(mass)[hot]) >= max(np.array(mass)[~hot], default=0)
        assert (np.array(mass)[hot].sum() - min(np.array(mass)[hot])) < share * sum(mass) * (1 + 1e-9)
    if (~hot & stand_out).any():
        assert np.array(mass)[hot].sum() >= share * sum(mass) * (1 - 1e-9)


def test_where_routing_is_flat_nobody_is_hot() -> None:
    assert not hot_experts(
        np.array([[0.3] * 8, [0.0] * 8, [1.0, 1.1, 1.2, 0.9, 0.8, 1.0, 1.0, 1.0]]), 0.9
    ).any()


def test_the_hot_stay_until_others_clearly_take_over() -> None:
    first = hot_experts(np.array([[10.0, 9.0, 1.0, 1.0]]), 0.4)
    assert first.tolist() == [[True, False, False, False]]
    close = hot_experts(np.array([[9.0, 10.0, 1.0, 1.0]]), 0.4, were_hot=first)
    assert (close == first).all()
    clear = hot_experts(np.array([[7.0, 12.0, 1.0, 1.0]]), 0.4, were_hot=first)
    assert clear.tolist() == [[False, True, False, False]]


def test_both_blocks_of_hot_experts_get_more_up_to_their_planes() -> None:
    base = np.full((1, 2, 3), 3, np.uint8)
    base[0, 1, 1] = 5
    hot, most = np.array([[False, True, True]]), np.array([[[8, 8, 8], [8, 6, 4]]], np.uint8)
    assert raised(base, hot, 2, most).tolist() == [[[3, 5, 5], [3, 6, 4]]]
    assert raised(base, hot, 9).tolist() == [[[3, 8, 8], [3, 8, 8]]]
    assert (raised(base, hot, 0, most) == base).all()
