"""The sampler: order of the filters, ties, and draws that depend on (seed, position) only."""

import numpy as np
import pytest

from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Sampling
from ebbtide.engine.sampler import check, sample, uniform


def logits_of(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.asarray(values, np.float32)


def test_greedy_takes_the_lower_id_of_equals() -> None:
    assert sample(logits_of(1, 3, 3, 2), Sampling(), recent=[], position=0) == 1


def test_draw_depends_on_seed_and_position_only() -> None:
    assert uniform(7, 100) == uniform(7, 100)
    assert len({uniform(7, p) for p in range(1000)} | {uniform(8, p) for p in range(1000)}) == 2000
    assert abs(np.mean([uniform(1, p) for p in range(4000)]) - 0.5) < 0.02


def frequencies(
    sampling: Sampling, logits: np.ndarray[tuple[int], np.dtype[np.float32]], n: int = 4000
) -> list[float]:
    counts = np.bincount(
        [sample(logits, sampling, recent=[], position=p) for p in range(n)], minlength=logits.size
    )
    return [float(count) / n for count in counts]


def test_sampled_frequencies_follow_the_softmax() -> None:
    logits = logits_of(*np.log([0.5, 0.3, 0.2]))
    measured = frequencies(Sampling(temperature=1, top_k=0, top_p=1, min_p=0), logits)
    # Three standard deviations of a binomial share over 4,000 draws are below 0.024.
    assert measured == pytest.approx([0.5, 0.3, 0.2], abs=0.024)


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        (Sampling(temperature=1, top_k=2, top_p=1, min_p=0), {0, 1}),
        (Sampling(temperature=1, top_k=0, top_p=0.6, min_p=0), {0, 1}),  # 0.5 alone does not reach 0.6
        (Sampling(temperature=1, top_k=0, top_p=0.5, min_p=0), {0}),
        (Sampling(temperature=1, top_k=0, top_p=1, min_p=0.5), {0, 1}),
        (Sampling(temperature=1, top_k=0, top_p=0, min_p=1), {0}),  # never empty
    ],
)
def test_filters(sampling: Sampling, allowed: set[int]) -> None:
    logits = logits_of(*np.log([0.5, 0.3, 0.15, 0.05]))
    assert {sample(logits, sampling, recent=[], position=p) for p in range(500)} == allowed


def test_penalty_lowers_both_signs() -> None:
    sampling = Sampling(repeat_penalty=2.0)
    assert sample(logits_of(4, 3), sampling, recent=[0], position=0) == 1
    assert sample(logits_of(-1, -1.5), sampling, recent=[0], position=0) == 1


def test_not_finite_logits_are_an_error() -> None:
    with pytest.raises(ArithmeticError):
        sample(logits_of(float("nan"), 1), Sampling(), recent=[], position=0)


@pytest.mark.parametrize(
    "bad", [Sampling(temperature=-1), Sampling(top_p=1.5), Sampling(seed=-1), Sampling(repeat_penalty=0)]
)
def test_bad_settings_are_named(bad: Sampling) -> None:
    with pytest.raises(UsageError, match="out of range"):
        check(bad)
