"""Speeds and gaps of one request, measured at the engine's own safe points."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ebbtide.engine.messages import Timings

Clock = Callable[[], float]


@dataclass
class RequestClock:
    """Marks the moments of a request; every figure is derived from them. Times in seconds."""

    load_s: float = 0.0
    now: Clock = time.perf_counter
    received: float = field(init=False)
    prefill_s: float = field(init=False, default=0.0)
    prefilled_tokens: int = field(init=False, default=0)
    first_token: float | None = field(init=False, default=None)
    last_token: float | None = field(init=False, default=None)
    tokens: int = field(init=False, default=0)
    max_gap_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.received = self.now()

    def mark_prefill(self, tokens: int, seconds: float) -> None:
        self.prefilled_tokens += tokens
        self.prefill_s += seconds

    def mark_token(self) -> None:
        moment = self.now()
        if self.last_token is None:
            self.first_token = moment
        else:
            self.max_gap_s = max(self.max_gap_s, moment - self.last_token)
        self.last_token = moment
        self.tokens += 1

    @property
    def prefill_tok_s(self) -> float:
        return self.prefilled_tokens / self.prefill_s if self.prefill_s > 0 else 0.0

    @property
    def decode_tok_s(self) -> float:
        """Tokens after the first, over the time since the first: prefill does not dilute it."""
        if self.first_token is None or self.last_token is None or self.tokens < 2:
            return 0.0
        return (self.tokens - 1) / max(self.last_token - self.first_token, 1e-9)

    def timings(self) -> Timings:
        return Timings(
            load_s=self.load_s,
            first_token_s=self.first_token - self.received if self.first_token is not None else 0.0,
            prefill_tok_s=self.prefill_tok_s,
            decode_tok_s=self.decode_tok_s,
            max_gap_s=self.max_gap_s,
        )


class RateLimit:
    """Lets through at most one thing per `interval_s`."""

    def __init__(self, interval_s: float, now: Clock = time.perf_counter) -> None:
        self._interval_s, self._now = interval_s, now
        self._next = float("-inf")

    def ready(self) -> bool:
        moment = self._now()
        if moment < self._next:
            return False
        self._next = moment + self._interval_s
        return True
