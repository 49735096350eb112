"""A plan that is made beside the steps: taken once, or dropped without a trace."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.precision.planning import Planning
from ebbtide.engine.precision.steward import Proposal, Question
from tests.helpers.waiting import PATIENCE_S

CURRENT: Any = np.full((1, 2, 3), 8, np.uint8)


class Desk:
    """A planner that waits for leave, and notes whom it planned for."""

    def __init__(self) -> None:
        self.leave, self.begun = threading.Event(), threading.Event()
        self.targets: list[int] = []
        self.planning = Planning(self._plan)

    def _plan(self, question: Question) -> Proposal:
        self.begun.set()
        assert self.leave.wait(PATIENCE_S), "nobody let the plan go on"
        self.targets.append(question.target_pages)
        if question.target_pages < 0:
            raise RuntimeError("no plan")
        return Proposal(question.current - 1, question.target_pages, 1.0, 0.0)

    def ask(self, target: int) -> None:
        self.planning.ask(Question(np.ones((1, 3)), CURRENT.copy(), target), 0, lowers=True)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.leave.set()
    made.planning.close()


def test_a_plan_is_taken_once(desk: Desk) -> None:
    desk.ask(5)
    assert not desk.planning.wait(0.0), "it is not there yet, and nobody waits for it"
    desk.leave.set()
    assert desk.planning.wait(PATIENCE_S)
    found = desk.planning.take(CURRENT)
    assert found is not None and found.pages == 5 and (found.widths == 7).all()
    assert desk.planning.take(CURRENT) is None and not desk.planning.wait(0.0)


def test_of_two_questions_the_later_one_is_answered(desk: Desk) -> None:
    desk.ask(5)
    assert desk.begun.wait(PATIENCE_S)
    desk.ask(6)
    desk.ask(7)
    desk.leave.set()
    found = desk.planning.take(CURRENT)
    assert found is not None and found.pages == 7
    assert desk.targets == [5, 7], "what had not begun is never planned"


def test_a_plan_for_other_widths_is_dropped(desk: Desk) -> None:
    """Without waiting for it."""
    desk.ask(5)
    assert desk.planning.take(CURRENT - 1) is None and desk.planning.asked is None


def test_a_closed_one_waits_for_nobody(desk: Desk) -> None:
    desk.ask(5)
    assert desk.begun.wait(PATIENCE_S)
    desk.planning.close()
    assert desk.planning.take(CURRENT) is None


def test_an_error_comes_with_the_plan(desk: Desk) -> None:
    desk.ask(-1)
    desk.leave.set()
    assert desk.planning.wait(PATIENCE_S), "an answer that is bad is one, too"
    with pytest.raises(RuntimeError, match="no plan"):
        desk.planning.take(CURRENT)
    assert desk.planning.asked is None
