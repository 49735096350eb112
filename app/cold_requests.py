"""Requests for measuring: synthetic prompts of a wanted length, each to an engine that has cached nothing."""

from ebbtide.app.bench_text import words_of
from ebbtide.app.session import Session
from ebbtide.engine.messages import Finished, Generate

CALIBRATION_WORDS = 128


class ColdRequests:
    """Asks the model first how many of our words make one of its tokens."""

    def __init__(self, session: Session) -> None:
        self._session = session
        (tokens,) = session.count([words_of(CALIBRATION_WORDS, 0)])
        self._words_per_token = CALIBRATION_WORDS / max(tokens, 1)

    def text(self, tokens: int, variant: int) -> str:
        """About `tokens` tokens; every variant starts with other words."""
        return words_of(max(1, round(tokens * self._words_per_token)), variant)

    def send(self, text: str, answer_tokens: int) -> Finished:
        self._session.clear()
        request = Generate(self._session.next_request_id(), text=text, max_tokens=answer_tokens)
        return self._session.generate(request)
