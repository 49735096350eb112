"""Figures over all passages, each with the interval that the choice of passages leaves.

Passages are drawn again as wholes, since the tokens of one depend on each other.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.app.compare.statistics import bootstrap
from ebbtide.engine.messages import Scored

Interval = tuple[float, float]


class Loss(NamedTuple):
    """Of one passage: sums over its tokens of negative natural log-probabilities; `full` is with every
    plane, where that was computed.
    """

    tokens: int
    arm: float
    full: float


class Summary(NamedTuple):
    """Intervals are of `LEVEL`, None where the passages are too few; what compares with every plane is None
    where that was not computed.
    """

    tokens: int
    perplexity: float
    interval: Interval | None
    agreement: float | None = None
    """Share of the positions at which both have the same likeliest token."""
    kl: float | None = None
    """Mean, in nats."""
    full_perplexity: float | None = None
    increase: float | None = None
    """perplexity / full_perplexity - 1"""
    increase_interval: Interval | None = None
    """Of the same passages with both: narrower than what the perplexity's own tells."""
    read_bits: float | None = None
    """Planes read per expert weight for a token, on average, where an arm chooses them token by token."""


def summary_of(scores: Sequence[Scored]) -> Summary:
    """Of passages with at least one scored token in all."""
    losses = [
        Loss(len(scored.logprobs), -math.fsum(scored.logprobs), -math.fsum(scored.full_logprobs))
        for scored in scores
    ]
    tokens = sum(loss.tokens for loss in losses)
    plain = Summary(tokens, _perplexity(losses), bootstrap(losses, _perplexity))
    nats = [nats for scored in scores for nats in scored.kl]
    if len(nats) < tokens:
        return plain
    return plain._replace(
        agreement=sum(map(_agreeing, scores)) / tokens,
        kl=math.fsum(nats) / tokens,
        full_perplexity=math.exp(math.fsum(loss.full for loss in losses) / tokens),
        increase=_increase(losses),
        increase_interval=bootstrap(losses, _increase),
        read_bits=_read_bits(scores),
    )


def _read_bits(scores: Sequence[Scored]) -> float | None:
    """Of all tokens; each passage's counts with as many as it has."""
    tokens = sum(len(scored.token_ids) for scored in scores if scored.read_bits)
    bits = math.fsum(scored.read_bits * len(scored.token_ids) for scored in scores)
    return bits / tokens if tokens else None


def _agreeing(scored: Scored) -> int:
    """Positions at which both have the same likeliest token."""
    return sum(ours == full for ours, full in zip(scored.top1, scored.full_top1, strict=True))


def _perplexity(losses: Sequence[Loss]) -> float:
    """exp of the mean negative natural log-probability."""
    return math.exp(math.fsum(loss.arm for loss in losses) / sum(loss.tokens for loss in losses))


def _increase(losses: Sequence[Loss]) -> float:
    more = math.fsum(loss.arm - loss.full for loss in losses)
    return math.expm1(more / sum(loss.tokens for loss in losses))
