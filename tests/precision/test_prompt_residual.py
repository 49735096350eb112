"""Prompt residuals: learnt from routes, off where nothing is to be learnt, none where a chat begins."""

import numpy as np
import pytest

from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.prompt_residual import DIRECTIONS, PromptResiduals

LAYERS, EXPERTS = 3, 16
USUAL = np.random.default_rng(0).uniform(0.01, 0.05, (LAYERS, EXPERTS))


def prompts(count: int, seed: int, *, follows: bool = True) -> tuple[F64, F64]:
    """Texts about two subjects, more or less; where residuals follow, layer 1 errs more in the first one."""
    rng = np.random.default_rng(seed)
    subject = rng.uniform(-1, 1, count)
    lean = np.linspace(-1, 1, EXPERTS)
    masses = USUAL * np.exp(0.8 * subject[:, None, None] * lean) * rng.lognormal(0, 0.05, (count, 1, 1))
    logs = rng.normal(0, 0.05, (count, LAYERS))
    logs[:, 1] += 0.6 * (subject if follows else rng.uniform(-1, 1, count))
    return masses, np.exp(logs) * rng.lognormal(0, 1, (count, 1))


def test_what_follows_from_the_subject_is_learnt() -> None:
    learnt = PromptResiduals.fit(*prompts(100, 1))
    assert learnt is not None and learnt.heads.r2[1] > 0.8
    masses, residuals = prompts(50, 2)
    logs = np.log(residuals)
    wanted = (logs - logs.mean(axis=1, keepdims=True))[:, 1]
    found = np.log([learnt.of(mass)[1] for mass in masses])
    assert np.corrcoef(wanted, found)[0, 1] > 0.9


def test_where_there_is_nothing_to_learn_it_is_off() -> None:
    learnt = PromptResiduals.fit(*prompts(100, 3, follows=False))
    assert learnt is not None
    away = [np.abs(np.log(learnt.of(mass))).max() for mass in prompts(50, 4)[0]]
    assert max(away) < 0.1


def test_the_usual_prompt_has_none() -> None:
    masses, residuals = prompts(100, 1)
    learnt = PromptResiduals.fit(masses, residuals)
    assert learnt is not None
    np.testing.assert_allclose(learnt.of(np.square(learnt.usual).reshape(LAYERS, EXPERTS)), 1, rtol=1e-6)


@pytest.mark.parametrize(("count", "features"), [(7, 0), (8, 1), (40, 5), (500, DIRECTIONS)])
def test_few_prompts_have_few_features(count: int, features: int) -> None:
    learnt = PromptResiduals.fit(*prompts(count, 5))
    assert (0 if learnt is None else len(learnt.directions)) == features


def test_a_layer_that_nothing_was_measured_of_has_none() -> None:
    masses, residuals = prompts(60, 6)
    residuals[:, 2] = 0
    learnt = PromptResiduals.fit(masses, residuals)
    assert learnt is not None
    assert all(np.isfinite(learnt.of(mass)).all() for mass in masses)


def test_back_from_a_file() -> None:
    learnt = PromptResiduals.fit(*prompts(60, 7))
    assert learnt is not None
    again = PromptResiduals.from_arrays(learnt.to_arrays(), LAYERS, EXPERTS)
    mass = prompts(1, 8)[0][0]
    assert (again.of(mass) == learnt.of(mass)).all()
    with pytest.raises(ValueError, match="another model"):
        PromptResiduals.from_arrays(learnt.to_arrays(), LAYERS, EXPERTS + 1)
    with pytest.raises(ValueError, match="without directions, usual"):
        PromptResiduals.from_arrays(learnt.heads.to_arrays(), LAYERS, EXPERTS)
