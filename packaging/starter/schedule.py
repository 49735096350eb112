"""Learning rate: warm-up, constant, then linear to zero, so that a run can be cooled down at any time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Ends at `tokens`, or at `deadline` (seconds since the epoch) if that comes first."""

    peak: float
    warmup_steps: int
    tokens: int
    decay_share: float  # of `tokens`
    deadline: float
    decay_s: float  # before `deadline`

    def rate(self, step: int, tokens: int, now: float) -> float:
        """0 means: finished."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        by_tokens = (self.tokens - tokens) / (self.tokens * self.decay_share)
        by_time = (self.deadline - now) / self.decay_s
        return self.peak * max(0.0, min(warm, by_tokens, by_time))
