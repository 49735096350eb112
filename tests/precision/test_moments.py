"""Moments: what sums become, and how two of them are put together."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.precision.moments import Moments, means, merged, steadied, weighted_squares


def moments(seed: int, tokens: int, *, has_down: bool = True) -> Moments:
    """Of two layers of three experts; the first expert of the first layer is unused."""
    rng = np.random.default_rng(seed)
    mass: NDArray[np.float64] = rng.uniform(0.1, 0.5, (2, 3))
    mass[0, 0] = 0
    gate_up, down = (rng.uniform(0.5, 2, (2, 3, width)).astype(np.float32) for width in (8, 4))
    return Moments(gate_up, down if has_down else np.ones_like(down), mass, tokens, has_down)


def test_means_are_per_mass_and_an_unused_expert_has_its_layers() -> None:
    sums = np.array([[[2, 4], [0, 0], [1, 8]], [[0, 0], [0, 0], [0, 0]]], np.float32)
    mass = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    wanted = [[[1, 2], [1, 4], [1, 8]], [[1, 1], [1, 1], [1, 1]]]
    assert means(sums, mass).tolist() == wanted


def test_steadied_moments_by_hand() -> None:
    """Masses of 1, 3 and 0 tokens, and the layer's mean with a mass of 2."""
    gate_up = np.array([[[8.0], [4.0], [5.0]]], np.float32)
    mass = np.array([[0.1, 0.3, 0.0]])
    given = Moments(gate_up, 2 * gate_up, mass, 10)
    found = steadied(given, 2.0)
    assert found.gate_up.ravel() == pytest.approx([8 / 3 + 5 * 2 / 3, 4 * 3 / 5 + 5 * 2 / 5, 5])
    assert np.allclose(found.down, 2 * found.gate_up) and found.gate_up.dtype == np.float32
    assert (found.mass == mass).all() and found.tokens == 10


def test_what_many_tokens_chose_stays_and_a_part_without_moments_too() -> None:
    many = moments(1, 10**9)
    assert np.allclose(steadied(many).gate_up[:, 1:], many.gate_up[:, 1:], rtol=1e-5)
    few = moments(2, 8, has_down=False)
    assert (steadied(few).down == few.down).all() and (steadied(few).gate_up != few.gate_up).any()
    nothing = replace(few, mass=np.zeros_like(few.mass), tokens=0)
    assert np.isfinite(steadied(nothing).gate_up).all()


def test_inputs_alone_are_levelled_to_the_ones_of_the_hidden_rows() -> None:
    """Experts and columns stay as far apart as they are; layers and kinds of blocks become alike."""
    given = moments(3, 10**9, has_down=False)
    found = steadied(replace(given, gate_up=(given.gate_up / 50).astype(np.float32)))
    weights = given.mass / given.mass.sum(axis=1, keepdims=True)
    assert np.allclose((found.gate_up * weights[:, :, None]).sum(axis=1).mean(axis=1), 1, rtol=1e-4)
    assert np.allclose(found.gate_up, steadied(given).gate_up, rtol=1e-4) and (found.down == 1).all()
    assert np.allclose(steadied(found).gate_up, found.gate_up, rtol=1e-4)


def test_weighted_squares_are_in_double_precision() -> None:
    """In single precision the small squares beside the large one would be lost."""
    x = np.array([[4096.0], [1.0], [1.0]], np.float32)
    assert weighted_squares(x, np.array([1.0, 1.0, 2.0])).tolist() == [16777219.0]


def test_merging_weighs_by_mass_and_tokens() -> None:
    kept, added = moments(1, 300), moments(2, 100)
    both = merged(kept, added)
    weights = kept.mass * 300, added.mass * 100
    assert both.tokens == 400 and both.has_down
    np.testing.assert_allclose(both.mass, (weights[0] + weights[1]) / 400)
    used = both.mass > 0
    for name in ("gate_up", "down"):
        first, second = getattr(kept, name), getattr(added, name)
        total = (weights[0] + weights[1])[..., None]
        with np.errstate(invalid="ignore"):
            wanted = (weights[0][..., None] * first + weights[1][..., None] * second) / total
        np.testing.assert_allclose(getattr(both, name)[used], wanted[used], rtol=1e-5)
        assert (getattr(both, name)[0, 0] == first[0, 0]).all(), "nothing is known of it in either"


@pytest.mark.parametrize("order", [1, -1])
def test_inputs_alone_leave_the_hidden_moments(order: int) -> None:
    pair = [moments(1, 300), moments(2, 100, has_down=False)]
    both = merged(*pair[::order])
    assert both.has_down and (both.down == pair[0].down).all()
    assert (both.gate_up[1] != pair[0].gate_up[1]).all()


def test_a_new_expert_is_taken_as_it_is() -> None:
    kept, added = moments(1, 300), moments(2, 100)
    added.mass[0, 0] = 0.25
    assert (merged(kept, added).gate_up[0, 0] == added.gate_up[0, 0]).all()


def test_other_models_are_not_merged() -> None:
    kept = moments(1, 300)
    with pytest.raises(ValueError, match="different models"):
        merged(kept, replace(kept, gate_up=kept.gate_up[:, :2]))
