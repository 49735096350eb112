"""The measuring of `bench`: rounds, each with one decode and one prompt of every length."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ebbtide.app.cold_requests import ColdRequests
from ebbtide.app.session import Session
from ebbtide.engine.messages import Finished

Update = Callable[[str, int, int], None]
STAGE = "measuring"


class Kind(NamedTuple):
    """One kind of request, in tokens."""

    prompt: int
    answer: int


class Rounds:
    """Requests that share no prefix: every prompt starts with other words.

    Going in rounds, whatever else the machine does for a while falls on all kinds alike, not on one of them.
    """

    def __init__(self, session: Session) -> None:
        self._requests = ColdRequests(session)
        self._variant = 0

    def run(self, kinds: Sequence[Kind], runs: int, update: Update) -> list[list[Finished]]:
        """`runs` answers of each kind. One round more is run in front, which warms every kind up."""
        answers: list[list[Finished]] = [[] for _ in kinds]
        total, done = (runs + 1) * len(kinds), 0
        update(STAGE, 0, total)
        for _ in range(runs + 1):
            for kind, into in zip(kinds, answers, strict=True):
                into.append(self._request(kind))
                done += 1
                update(STAGE, done, total)
        return [found[1:] for found in answers]

    def _request(self, kind: Kind) -> Finished:
        self._variant += 1
        return self._requests.send(self._requests.text(kind.prompt, self._variant), kind.answer)
