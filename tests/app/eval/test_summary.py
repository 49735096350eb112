"""Figures that can be checked by hand, and their intervals."""

import math
import random

import pytest

from ebbtide.app.compare.statistics import bootstrap
from ebbtide.app.eval.report import average_bits
from ebbtide.app.eval.summary import Loss, summary_of
from ebbtide.engine.messages import Memory, Scored


def scored(*logprobs: float, full: float | None = None) -> Scored:
    count = len(logprobs)
    if full is None:
        return Scored(1, [0] * count, list(logprobs), [0] * count)
    return Scored(1, [0] * count, list(logprobs), [0] * count, [full] * count, [0.25] * count, [0] * count)


def test_perplexity_of_a_coin() -> None:
    found = summary_of([scored(*[-math.log(2)] * 7), scored(-math.log(2))])
    assert found.perplexity == pytest.approx(2.0) and found.tokens == 8
    assert (found.kl, found.agreement, found.increase, found.interval) == (None,) * 4


def test_every_token_counts_alike() -> None:
    found = summary_of([scored(-1.0, -1.0, -1.0, full=-0.5), scored(-2.0, full=-2.0)])
    assert found.perplexity == pytest.approx(math.exp(5 / 4))
    assert found.full_perplexity == pytest.approx(math.exp(3.5 / 4))
    assert found.increase == pytest.approx(math.exp(1.5 / 4) - 1)
    assert found.kl == 0.25 and found.agreement == 1.0


def test_intervals_cover_what_they_should() -> None:
    """Of 200 draws of passages, about 95 in 100 have the true mean inside; few passages cover less."""
    chooser, inside = random.Random(7), 0
    for _ in range(200):
        losses = [Loss(100, 100 * chooser.gauss(2.0, 0.3), 0.0) for _ in range(30)]
        found = bootstrap(
            losses, lambda some: sum(loss.arm for loss in some) / sum(loss.tokens for loss in some)
        )
        assert found is not None
        inside += found[0] <= 2.0 <= found[1]
    assert 176 <= inside <= 199


def test_a_change_in_every_passage_is_surer_than_the_perplexity() -> None:
    chooser = random.Random(1)
    passages = [scored(value - 0.1, full=value) for value in (chooser.uniform(-4, -1) for _ in range(12))]
    found = summary_of(passages)
    assert found.interval is not None and found.increase_interval is not None
    assert found.interval[0] < found.perplexity < found.interval[1]
    assert found.increase_interval == pytest.approx((math.expm1(0.1), math.expm1(0.1)))
    assert summary_of(passages) == found
    assert summary_of(passages[:5]).interval is None, "five passages tell no interval"


def test_average_bits_counts_what_is_in_memory() -> None:
    assert average_bits(Memory(width_histogram={"0": 9, "4": 1, "8": 3})) == 7.0
    assert average_bits(Memory()) is None


def test_planes_read_are_of_all_tokens() -> None:
    """A long passage counts more; an arm that holds what it reads says nothing of its own."""

    def scored(tokens: int, bits: float) -> Scored:
        ids, losses = [0] * tokens, [-1.0] * tokens
        return Scored(1, ids, losses, ids, losses, [0.0] * tokens, ids, read_bits=bits)

    assert summary_of([scored(10, 4.0), scored(30, 5.0)]).read_bits == pytest.approx(4.75)
    assert summary_of([scored(10, 0.0), scored(30, 0.0)]).read_bits is None
