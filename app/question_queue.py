"""Questions that were sent while an answer was still being written."""

from collections.abc import Sequence


class QuestionQueue:
    """First in, first out. `held`: an answer was stopped, so nothing is sent before the person says so.

    `left` are questions of an earlier time; these are held.
    """

    def __init__(self, left: Sequence[str] = ()) -> None:
        self.questions = list(left)
        self.held = bool(left)

    def add(self, question: str) -> None:
        self.questions.append(question)

    def next(self) -> str | None:
        """The next question to send by itself, if any."""
        if self.held or not self.questions:
            return None
        return self.questions.pop(0)

    def take(self, index: int = -1) -> str | None:
        """Take a question out of the queue: it is not sent."""
        if not -len(self.questions) <= index < len(self.questions):
            return None
        question = self.questions.pop(index)
        self.held = self.held and bool(self.questions)
        return question

    def hold(self) -> None:
        """The answer before was stopped."""
        self.held = bool(self.questions)

    def release(self) -> None:
        self.held = False
