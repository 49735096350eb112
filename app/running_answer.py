"""The answer to the latest request, as it grows."""

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.phase import Phase
from ebbtide.app.thinking import OPEN
from ebbtide.engine.messages import Failed, Finished, Snapshot, Token


class RunningAnswer:
    """`phase` is READING, ANSWERING or STOPPING; None while no answer is written."""

    def __init__(self) -> None:
        self.content = AnswerContent()
        """What is being answered, or was last."""
        self.text = ""
        """As the model wrote it; empty again when the answer has ended."""
        self.phase: Phase | None = None
        self.request_id = 0
        self._opens_thinking = False

    def begin(self, request_id: int, *, opens_thinking: bool) -> None:
        """The request is on its way. `opens_thinking`: the template has opened the thinking."""
        self.request_id, self.text, self.phase = request_id, "", Phase.READING
        self._opens_thinking = opens_thinking
        if opens_thinking:
            self.content.open_thinking()

    def owns(self, event: Token | Snapshot | Finished | Failed) -> bool:
        """Whether an event belongs to it; those of forgotten requests belong to nothing."""
        return self.phase is not None and event.request_id == self.request_id

    def take(self, token: Token) -> None:
        self.text += token.text
        self.content.push(token.text, len(token.ids))
        if self.phase is Phase.READING:
            self.phase = Phase.ANSWERING

    def end(self) -> str:
        """Nothing more is awaited; returns all that was said, in the form in which it is kept."""
        self.content.end()
        said, self.text, self.phase = self.text, "", None
        if not said.strip():
            return ""
        return f"{OPEN}\n{said}" if self._opens_thinking else said

    def forget(self) -> None:
        """The chat is another one: nothing of the request is heard any more."""
        self.request_id, self.text = 0, ""
