"""Figures of a request follow from its marks."""

import pytest

from ebbtide.engine.telemetry import RateLimit, RequestClock


class FakeTime:
    def __init__(self) -> None:
        self.t = 100.0

    def __call__(self) -> float:
        return self.t


def test_figures() -> None:
    time = FakeTime()
    clock = RequestClock(load_s=1.5, now=time)
    clock.mark_prefill(200, 2.0)
    for moment in (102.5, 102.6, 103.5, 103.6):
        time.t = moment
        clock.mark_token()
    timings = clock.timings()
    assert timings.load_s == 1.5
    assert timings.first_token_s == pytest.approx(2.5)
    assert timings.prefill_tok_s == pytest.approx(100)
    assert timings.decode_tok_s == pytest.approx(3 / 1.1)
    assert timings.max_gap_s == pytest.approx(0.9)


def test_no_token_gives_zeros_not_errors() -> None:
    timings = RequestClock(now=FakeTime()).timings()
    assert (timings.first_token_s, timings.decode_tok_s, timings.prefill_tok_s) == (0, 0, 0)


def test_rate_limit() -> None:
    time = FakeTime()
    limit = RateLimit(0.25, time)
    shown = []
    for moment in (100.0, 100.1, 100.24, 100.3, 100.5, 100.6):
        time.t = moment
        shown.append(limit.ready())
    assert shown == [True, False, False, True, False, True]
