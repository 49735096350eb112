"""The arm that chooses between two widths for every token: what it estimates, when, and how often."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.precision import arms
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.dp_arm import DpArm, EstimateFit, Watcher, features, gains, guess, remaining
from tests.precision.test_paged_arm import COSTS, DAMAGE, EXPERTS, LAYERS, MASS

F64 = NDArray[np.float64]
D, ERRORS = 32, LAYERS * 2
BITS = 4.3


SPREAD = np.linspace(1, 0, arms.DP_STEPS + 1) ** 3
"""Errors of which few tokens have most, and all of these are found."""


def pairs_of(costs: Costs = COSTS, bits: float = BITS) -> arms.Pairs:
    return arms.dp_pairs(DAMAGE, MASS, costs, bits, remaining=np.tile(SPREAD, (LAYERS, 2, 1)))


def rows_of(normed: NDArray[np.float32], chosen: list[int], gates: list[float]) -> Any:
    count = len(normed)
    rows = SimpleNamespace(
        normed=normed,
        chosen=np.tile(np.array(chosen, np.int32), (count, 1)),
        gates=np.tile(np.array(gates, np.float32), (count, 1)),
    )
    return SimpleNamespace(rows=rows)


def test_the_error_by_hand() -> None:
    gain = np.arange(1.0, 1 + LAYERS * 2 * EXPERTS).reshape(LAYERS, 2, EXPERTS)
    watcher, normed = Watcher(LAYERS), np.array([[1, 2], [3, 0]], np.float32)
    assert watcher.seen is None
    for layer in range(LAYERS):
        watcher.routed(layer, rows_of(normed, [1, 3], [0.75, 0.25]))
    chosen = 0.75**2 * gain[..., 1] + 0.25**2 * gain[..., 3]
    assert watcher.seen is not None
    errors = np.exp(watcher.seen.log_errors(gain)).reshape(2, LAYERS, 2)
    assert np.allclose(errors, np.array([2.5, 4.5])[:, None, None] * chosen)


def test_gains_are_what_the_higher_width_spares() -> None:
    pairs = pairs_of()
    unit = np.full((LAYERS, 2), 3.0)
    by_hand = np.zeros((LAYERS, 2, EXPERTS))
    for place in np.ndindex(LAYERS, 2):
        low, high = int(pairs.low[place]), int(pairs.high[place])
        by_hand[place] = 3 * (DAMAGE[(*place, slice(None), low)] - DAMAGE[(*place, slice(None), high)])
    assert np.allclose(gains(DAMAGE, pairs, COSTS, unit), by_hand) and (by_hand > 0).all()


def test_a_rows_features_do_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    rows, before = rng.normal(size=(9, D)).astype(np.float32), rng.normal(size=(9, ERRORS))
    together = features(rows, before)
    alone = np.concatenate([features(rows[at : at + 1], before[at : at + 1]) for at in range(9)])
    assert (together == alone).all() and np.isfinite(features(np.zeros((1, D), np.float32), before[:1])).all()


def language(count: int, seed: int) -> tuple[NDArray[np.float32], F64]:
    """Embeddings, and errors of which a part can be told from them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, D)).astype(np.float32)
    told = features(rows, np.zeros((count, ERRORS)))[:, :ERRORS]
    return rows, told + rng.normal(0, 0.5, (count, ERRORS))


def fitted(pairs: arms.Pairs, count: int = 400) -> EstimateFit:
    rows, errors = language(count, 1)
    return EstimateFit.of(features(rows[1:], errors[:-1]), errors[1:], pairs.share)


def test_the_thresholds_give_the_share_and_the_guess_is_held_out() -> None:
    pairs = pairs_of()
    rows, errors = language(400, 1)
    seen = features(rows[1:], errors[:-1])
    fit = EstimateFit.of(seen, errors[1:], pairs.share)
    raised = guess(fit.heads, seen) > fit.thresholds.ravel()
    raised = raised.reshape(-1, LAYERS, 2)
    assert np.abs(raised.mean(axis=0) - pairs.share).max() < 0.01
    assert 0.3 < np.median(fit.heads.r2) < 1 and "explains" in fit.sentence()
    # Tokens that get the higher width do have the larger errors.
    part = int(np.argmin(np.abs(pairs.share - 0.5)))
    up = raised.reshape(-1, ERRORS)[:, part]
    assert errors[1:][up, part].mean() > errors[1:][~up, part].mean() + 0.3


def test_what_remains_when_the_guess_is_good_bad_and_between() -> None:
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 1, (2000, ERRORS))
    blind = remaining(rng.normal(size=(2000, 3)), logs, LAYERS)
    sure = remaining(logs, logs, LAYERS)
    half = remaining(logs + rng.normal(0, 1, logs.shape), logs, LAYERS)
    for found in (blind, sure, half):
        assert found.shape == (LAYERS, 2, arms.DP_STEPS + 1)
        assert (found[..., 0] == 1).all() and np.allclose(found[..., -1], 0)
        assert (np.diff(found, axis=2) <= 0).all()
    middle = arms.DP_STEPS // 2
    # Of lognormal errors (sigma 1) the half that is larger has 84 % of the sum.
    assert sure[..., middle] == pytest.approx(np.full((LAYERS, 2), 0.16), abs=0.04)
    assert blind[..., middle] == pytest.approx(np.full((LAYERS, 2), 0.5), abs=0.08)
    assert (half[..., middle] > sure[..., middle]).all() and (half[..., middle] < blind[..., middle]).all()


def walk(arm: DpArm, rows: NDArray[np.float32]) -> list[bytes]:
    """The widths of each step; every layer sees the row itself."""
    arm.begin()
    found = []
    for at in range(len(rows)):
        arm.ahead(rows[at : at + 1])
        found.append(arm.widths.tobytes())
        for layer in range(LAYERS):
            assert arm.observer is not None
            arm.observer.routed(layer, rows_of(rows[at : at + 1], [at % EXPERTS, 3], [0.5, 0.5]))
    return found


def test_widths_are_chosen_token_by_token_and_average_the_bits() -> None:
    pairs = pairs_of()
    arm = DpArm(COSTS, pairs, gains(DAMAGE, pairs, COSTS), fitted(pairs))
    held = arm.widths
    assert (held == pairs.held(COSTS)).all()
    rows, _ = language(300, 2)
    steps = walk(arm, rows)
    each = np.array([np.frombuffer(step, np.uint8).reshape(COSTS.shape) for step in steps])
    assert len(set(steps)) > 3 and (each <= held).all()
    for layer, kind in np.ndindex(LAYERS, 2):
        pair = int(pairs.low[layer, kind]), int(pairs.high[layer, kind])
        assert set(each[:, layer, kind].ravel()) <= set(pair)
        assert (each[:, layer, kind] == each[:, layer, kind, :1]).all(), "one width for all experts"
    assert arm.read_bits == pytest.approx(np.mean([COSTS.average_bits(widths) for widths in each]))
    assert COSTS.average_bits(held) > BITS > COSTS.average_bits(each.min(axis=0))


def test_the_same_tokens_get_the_same_widths_and_later_ones_say_nothing() -> None:
    pairs = pairs_of()
    arm = DpArm(COSTS, pairs, gains(DAMAGE, pairs, COSTS), fitted(pairs))
    rows, _ = language(60, 3)
    whole = walk(arm, rows)
    assert walk(arm, rows) == whole and walk(arm, rows[:30]) == whole[:30]


@pytest.mark.parametrize("bits", [3.0, 8.0])
def test_without_a_choice_to_make_it_is_not_made(bits: float) -> None:
    damage = arms.even_damage(COSTS)
    pairs = arms.dp_pairs(damage, np.ones((LAYERS, EXPERTS)), COSTS, bits)
    arm = DpArm(COSTS, pairs, gains(damage, pairs, COSTS), fitted(pairs))
    walk(arm, language(20, 4)[0])
    assert (
        arm.read_bits == pytest.approx(bits)
        and (arm.widths == bits).all()
        and (arm.widths == pairs.held(COSTS)).all()
    )
