"""What a long piece of work is doing, in words: names that other parts give to stages of their progress."""

import time
from collections.abc import Callable

from ebbtide.app.safe_text import safe_line
from ebbtide.app.sentences import sentence
from ebbtide.engine.sizes import format_bytes

_WORDS = {
    "wait": "Waiting for another ebbtide, which makes the starter",
    "download": "Downloading the starter's base model",
    "verify": "Checking it",
    "extract": "Unpacking it",
    "check": "Checking what was unpacked",
    "prepare": "Reading what the starter is built from",
    "expand": "Building the starter's experts",
    "store": "Writing the starter to the disk",
}
_STATES = {
    "wait": "waiting",
    "Waiting for another ebbtide, which makes the pack": "waiting",
    "verify": "checking",
    "extract": "unpacking",
    "check": "checking",
    "prepare": "building",
    "expand": "building",
    "store": "building",
    "Packing": "packing",
}
_IN_TOKENS = {"Calibrating"}
_SHORT = {"Loading", "Preparing the card"}
LEAST_OBSERVED_S, LEAST_OBSERVED_SHARE = 2.0, 0.03
"""Less says nothing about the rest of a stage."""
LEAST_SHOWN_BYTES = 1 << 20
"""Totals below this are counts of something smaller; they are shown as a share only."""


def stage_words(stage: str) -> str:
    """The stage as a person reads it."""
    return _WORDS.get(stage) or sentence(safe_line(stage))


def state_word(stage: str) -> str:
    """What the model is while this stage lasts, in a word; empty where that is the phase's own."""
    return _STATES.get(stage, "")


def is_short(stage: str) -> bool:
    """Whether it takes seconds, and a log can do without it."""
    return sentence(stage) in _SHORT


class Pace:
    """How long a stage will take, from what it has done so far. Told of every progress event.

    Asked again without progress, it counts down from what it said last, and says nothing once that is over.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or time.monotonic
        self._stage, self._total, self._done = "", 0, 0
        self._began = self._first = self._ends = 0.0

    def take(self, stage: str, done: int, total: int) -> str:
        """ ", about 40 s left"; empty until that can be known."""
        moment = self._now()
        if (stage, total) != (self._stage, self._total):
            self._stage, self._total, self._began, self._first = stage, total, moment, done
            self._done, self._ends = done, moment
        if done != self._done:
            self._done = done
            self._ends = self._end(moment)
        left = self._ends - moment
        return f", about {_about(left)} left" if left >= 1 else ""

    def _end(self, moment: float) -> float:
        """When all will be done; now, where that cannot be known."""
        passed, more, rest = moment - self._began, self._done - self._first, self._total - self._done
        if passed < LEAST_OBSERVED_S or more < LEAST_OBSERVED_SHARE * self._total or rest <= 0:
            return moment
        return moment + rest * passed / more


def _about(seconds: float) -> str:
    """Rounded: an estimate has no seconds of its own."""
    if seconds >= 90:
        return f"{round(seconds / 60)} min"
    return f"{max(5 * round(seconds / 5), 5)} s"


def lasted(seconds: float) -> str:
    """How long something took: "41 s", "3 min 20 s"."""
    minutes, rest = divmod(max(round(seconds), 1), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def of_total(total: int, stage: str = "") -> str:
    """ " of 738 MiB", " of 51,200 tokens", or nothing for a total that says nothing."""
    if stage in _IN_TOKENS:
        return f" of {total:,} tokens"
    return f" of {format_bytes(total)}" if total >= LEAST_SHOWN_BYTES else ""
