"""Residual heads: the closed form against least squares, and that what does not help is switched off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.ridge import RidgeHeads

LAYERS = 4


def prompts(seed: int, rows: int = 200, noise: float = 0.1) -> tuple[F64, F64]:
    """Features of quite different size; residuals follow them in layers 0 and 1, and nothing in 2 and 3."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 1, (rows, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5e3, 1.0]
    z = (features - [0.0, 5e3, 1.0]) / [1.0, 100.0, 1e-3]
    follows = z @ np.array([[0.3, 0.0, 0.0, 0.0], [0.0, -0.2, 0.0, 0.0], [0.1, 0.1, 0.0, 0.0]])
    targets = follows + rng.normal(0, noise, (rows, LAYERS)) + [0.0, 0.5, 0.0, 0.5]
    return features, targets


def test_is_least_squares_with_rows_that_say_0() -> None:
    features, targets = prompts(0, rows=60)
    heads = RidgeHeads.fit(features, targets, penalty=7.0)
    z = (features - features.mean(axis=0)) / features.std(axis=0)
    rows = np.vstack([z, np.sqrt(7.0) * np.eye(3)])
    answers = np.vstack([targets - targets.mean(axis=0), np.zeros((3, LAYERS))])
    expected = np.linalg.lstsq(rows, answers, rcond=None)[0]
    np.testing.assert_allclose(heads.weights, expected, rtol=1e-8)


def test_helps_where_there_is_something_to_learn() -> None:
    features, targets = prompts(1)
    heads = RidgeHeads.fit(features, targets)
    assert (heads.r2[:2] > 0.7).all() and (heads.r2[2:] < 0.05).all()
    fresh, wanted = prompts(2)
    got = np.log(heads.predict(fresh))
    usual = targets.mean(axis=0)
    error = np.square(wanted - usual - got).mean(axis=0)
    assert (error[:2] < 0.3 * np.square(wanted - usual).mean(axis=0)[:2]).all()


def test_r2_is_of_rows_that_were_held_out() -> None:
    """More features than rows explain any rows that they were fitted to, and none of the others."""
    rng = np.random.default_rng(3)
    features, targets = rng.normal(size=(40, 60)), rng.normal(size=(40, LAYERS))
    heads = RidgeHeads.fit(features, targets, penalty=1e-6)
    assert (heads.r2 < 0).all()
    assert heads.helping == 0 and "off" in heads.sentence()
    assert (heads.predict(features) == 1.0).all()


def test_neighbouring_rows_are_held_out_together() -> None:
    """Rows of one text are nearly the same; a row is not predicted from its neighbours."""
    rng = np.random.default_rng(5)
    texts = rng.normal(size=(10, 12))
    features = np.repeat(texts, 10, axis=0) + rng.normal(0, 1e-3, (100, 12))
    targets = np.repeat(rng.normal(size=(10, 1)), 10, axis=0)
    heads = RidgeHeads.fit(features, targets, penalty=1e-3, folds=10)
    assert heads.r2[0] < 0.3


def test_predictions_are_shrunk_by_r2_and_then_clipped() -> None:
    weights = np.array([[0.4, 0.4, 0.4, 4.0]])
    heads = RidgeHeads(np.array([2.0]), np.array([2.0]), weights, np.array([1.0, 0.5, -3.0, 1.0]))
    up = heads.predict(np.array([4.0]))
    np.testing.assert_allclose(up, [np.exp(0.4), np.exp(0.2), 1.0, 2.0])
    np.testing.assert_allclose(heads.predict(np.array([[0.0], [4.0]])), [1 / up, up])


@given(st.lists(st.floats(), min_size=3, max_size=3))
def test_any_prompt_gives_residuals_within_bounds(features: list[float]) -> None:
    heads = RidgeHeads.fit(*prompts(6))
    residuals = heads.predict(np.array(features))
    assert ((residuals >= 0.5) & (residuals <= 2.0)).all()


def test_the_usual_prompt_has_no_residual() -> None:
    features, targets = prompts(7)
    heads = RidgeHeads.fit(features, targets)
    np.testing.assert_allclose(heads.predict(features.mean(axis=0)), 1.0)
    np.testing.assert_allclose(heads.predict(np.full(3, np.nan)), 1.0)


def test_a_feature_counts_no_further_than_anything_was_fitted() -> None:
    heads = RidgeHeads(np.array([2.0]), np.array([0.5]), np.array([[0.1]]), np.ones(1))
    far, farther, other_way = (heads.predict(np.array([x]))[0] for x in (4.0, 400.0, -400.0))
    assert far == farther == pytest.approx(np.exp(0.4)) and other_way == pytest.approx(np.exp(-0.4))


def test_a_feature_that_never_changes_says_nothing() -> None:
    features, targets = prompts(8)
    constant = np.full((len(features), 1), 0.1)
    with_it = RidgeHeads.fit(np.hstack([features, constant]), targets)
    assert (with_it.weights[3] == 0).all()
    other = np.append(features[0], 99.0)
    np.testing.assert_allclose(with_it.predict(other), RidgeHeads.fit(features, targets).predict(features[0]))


@pytest.mark.parametrize("rows", [1, 9])
def test_too_few_rows_switch_all_heads_off(rows: int) -> None:
    heads = RidgeHeads.fit(*prompts(9, rows=rows))
    assert (heads.r2 == 0).all() and heads.helping == 0


def test_residuals_that_never_change_need_no_head() -> None:
    features, _ = prompts(10)
    heads = RidgeHeads.fit(features, np.zeros((len(features), LAYERS)))
    assert (heads.r2 == 0).all() and (heads.predict(features) == 1.0).all()


def test_a_sentence_says_what_heads_are_worth() -> None:
    heads = RidgeHeads(np.zeros(1), np.ones(1), np.zeros((1, 4)), np.array([0.2, 0.4, -1.0, 0.0]))
    assert heads.sentence() == (
        "Prompt residuals help in 2 of 4 layers, where they explain 30% of the variance of text held out "
        "(median)."
    )


def test_survives_being_arrays() -> None:
    features, targets = prompts(11)
    heads = RidgeHeads.fit(features, targets)
    back = RidgeHeads.from_arrays(heads.to_arrays())
    assert (back.predict(features) == heads.predict(features)).all() and (back.r2 == heads.r2).all()


def test_damaged_arrays_are_refused() -> None:
    arrays = RidgeHeads.fit(*prompts(12)).to_arrays()
    with pytest.raises(ValueError, match="without r2, scale"):
        RidgeHeads.from_arrays({name: arrays[name] for name in ("center", "weights")})
    broken: list[dict[str, F64]] = [
        {"weights": arrays["weights"][:2]},
        {"r2": arrays["r2"][:1]},
        {"scale": arrays["scale"] * 0},
        {"center": arrays["center"] * np.nan},
    ]
    for change in broken:
        with pytest.raises(ValueError, match="do not fit together"):
            RidgeHeads.from_arrays(arrays | change)


def test_input_that_does_not_fit_is_refused() -> None:
    features, targets = prompts(13)
    with pytest.raises(ValueError, match="same rows"):
        RidgeHeads.fit(features[:5], targets)
    with pytest.raises(ValueError, match="finite"):
        RidgeHeads.fit(features, targets * np.nan)
    with pytest.raises(ValueError, match="folds"):
        RidgeHeads.fit(features, targets, folds=1)
    with pytest.raises(ValueError, match="heads for 3 features"):
        RidgeHeads.fit(features, targets).predict(np.zeros(2))
