"""The arm that chooses between two widths for every token: what it estimates, when, and how often."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.precision import arms
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.dp_arm import DpArm, Errors, EstimateFit, features, gains, guess
from tests.precision.test_paged_arm import COSTS, DAMAGE, EXPERTS, LAYERS, MASS

F64 = NDArray[np.float64]
D = 32
BITS = 4.3


def pairs_of(costs: Costs = COSTS, bits: float = BITS) -> arms.Pairs:
    return arms.dp_pairs(DAMAGE, MASS, costs, bits)


def rows_of(normed: NDArray[np.float32], chosen: list[int], gates: list[float]) -> Any:
    count = len(normed)
    rows = SimpleNamespace(
        normed=normed,
        chosen=np.tile(np.array(chosen, np.int32), (count, 1)),
        gates=np.tile(np.array(gates, np.float32), (count, 1)),
    )
    return SimpleNamespace(rows=rows)


def test_the_error_by_hand() -> None:
    gain = np.arange(1.0, 1 + LAYERS * EXPERTS).reshape(LAYERS, EXPERTS)
    errors, normed = Errors(gain), np.array([[1, 2], [3, 0]], np.float32)
    for layer in range(LAYERS):
        errors.routed(layer, rows_of(normed, [1, 3], [0.75, 0.25]))
    chosen = 0.75**2 * gain[:, 1] + 0.25**2 * gain[:, 3]
    assert np.allclose(np.exp(errors.logs), np.array([2.5, 4.5])[:, None] * chosen)


def test_gains_are_what_the_higher_width_spares() -> None:
    pairs = pairs_of()
    unit = np.full((LAYERS, 2), 3.0)
    by_hand = np.zeros((LAYERS, EXPERTS))
    for layer in range(LAYERS):
        low, high = int(pairs.low[layer]), int(pairs.high[layer])
        by_hand[layer] = 3 * (DAMAGE[layer, :, :, low] - DAMAGE[layer, :, :, high]).sum(axis=0)
    assert np.allclose(gains(DAMAGE, pairs, COSTS, unit), by_hand) and (by_hand > 0).all()


def test_a_rows_features_do_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    rows, before = rng.normal(size=(9, D)).astype(np.float32), rng.normal(size=(9, LAYERS))
    together = features(rows, before)
    alone = np.concatenate([features(rows[at : at + 1], before[at : at + 1]) for at in range(9)])
    assert (together == alone).all() and np.isfinite(features(np.zeros((1, D), np.float32), before[:1])).all()


def language(count: int, seed: int) -> tuple[NDArray[np.float32], F64]:
    """Embeddings, and errors of which a part can be told from them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, D)).astype(np.float32)
    told = features(rows, np.zeros((count, LAYERS)))[:, :LAYERS]
    return rows, told + rng.normal(0, 0.5, (count, LAYERS))


def fitted(pairs: arms.Pairs, count: int = 400) -> EstimateFit:
    rows, errors = language(count, 1)
    return EstimateFit.of(features(rows[1:], errors[:-1]), errors[1:], pairs.share)


def test_the_thresholds_give_the_share_and_the_guess_is_held_out() -> None:
    pairs = pairs_of()
    rows, errors = language(400, 1)
    seen = features(rows[1:], errors[:-1])
    fit = EstimateFit.of(seen, errors[1:], pairs.share)
    raised = guess(fit.heads, seen) > fit.thresholds
    assert np.abs(raised.mean(axis=0) - pairs.share).max() < 0.01
    assert 0.3 < np.median(fit.heads.r2) < 1 and "explains" in fit.sentence()
    # Tokens that get the higher width do have the larger errors.
    part = int(np.argmin(np.abs(pairs.share - 0.5)))
    up = raised[:, part]
    assert errors[1:][up, part].mean() > errors[1:][~up, part].mean() + 0.3


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
    for layer in range(LAYERS):
        assert set(each[:, layer].ravel()) <= {int(pairs.low[layer]), int(pairs.high[layer])}
        assert (each[:, layer] == each[:, layer, :1, :1]).all(), "one width a layer"
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
