"""Requests for measuring: synthetic prompts of a wanted length, each to an engine that has cached nothing."""

from ebbtide.app.bench_text import words_of
from ebbtide.app.session import Session
from ebbtide.engine.errors import ContextError
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
        """The figures of an answer of `answer_tokens` tokens, also where the model would end it before.

        Raises ContextError where there is no room for so many.
        """
        self._session.clear()
        number = self._session.next_request_id()
        finished = self._session.generate(
            Generate(number, text=text, max_tokens=answer_tokens, ignore_end=True)
        )
        if finished.usage.completion < answer_tokens:
            raise _cut(finished, answer_tokens)
        return finished


def _cut(finished: Finished, wanted: int) -> ContextError:
    why = finished.message.rstrip(".") or "the context holds no more"
    return ContextError(
        f"The answer ended after {finished.usage.completion} of {wanted} tokens: {why}.",
        hint="Use a smaller --decode, or a larger --ctx or --budget.",
    )
