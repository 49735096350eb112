"""Plans that are made beside the steps: asked for at one safe point, taken at a later one, or dropped."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import NamedTuple

import numpy as np

from ebbtide.engine.precision.hull import U8
from ebbtide.engine.precision.steward import Proposal, Question


class Asked(NamedTuple):
    """A plan that is on its way."""

    question: Question
    answer: Future[Proposal]
    tokens: int
    """What had been routed when it was asked for."""
    lowers: bool
    """It makes room that KV will need; else it spreads or raises."""


class Planning:
    """One thread that plans, and at most one plan that somebody waits for. All calls are the step thread's.

    `plan` is called on the planner's thread alone, one question after another. What is dropped is never
    looked at, whether it was planned or not, and has changed nothing: a plan is only an array.
    """

    def __init__(self, plan: Callable[[Question], Proposal]) -> None:
        self._plan = plan
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ebbtide-planner")
        self.asked: Asked | None = None

    def ask(self, question: Question, tokens: int, *, lowers: bool) -> None:
        """Begin to plan; whatever was asked for before is dropped."""
        self.drop()
        self.asked = Asked(question, self._thread.submit(self._plan, question), tokens, lowers)

    def wait(self, seconds: float) -> bool:
        """Whether there is an answer, well or bad, after a moment at most."""
        if self.asked is None:
            return False
        try:
            self.asked.answer.exception(seconds)
        except NotYet:
            return False
        return True

    def take(self, current: U8) -> Proposal | None:
        """The plan that was asked for, when it is there; None where none was, or where widths are not the
        `current` ones any more for which it was made. Raises what went wrong.
        """
        asked, self.asked = self.asked, None
        if asked is None:
            return None
        if not np.array_equal(asked.question.current, current):
            asked.answer.cancel()
            return None
        return asked.answer.result()

    def drop(self) -> None:
        """Nobody wants the plan that was asked for."""
        if self.asked is not None:
            self.asked.answer.cancel()
            self.asked = None

    def close(self) -> None:
        """Drop what was asked for, and end the thread when it has planned to the end."""
        self.drop()
        self._thread.shutdown(wait=False, cancel_futures=True)
