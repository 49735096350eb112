"""One question and its answer: it waits for the model, is sent, is stopped or ends, and is kept."""

import msgspec

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.kept_chat import KeptChat
from ebbtide.app.phase import Phase
from ebbtide.app.running_answer import RunningAnswer
from ebbtide.app.store import State
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Cancel, Finished, Generate, Sampling

AGAIN_TEMPERATURE = 0.7
"""Of an answer that is wanted once more, where the setting is 0."""


class Exchange:
    """`waiting`: the question at the end of the chat waits for the model."""

    def __init__(self, engine: EngineClient, chat: KeptChat) -> None:
        self.answer = RunningAnswer()
        self.waiting = False
        self._engine = engine
        self._chat = chat
        self._taken_back = ""
        self._again = 0
        """How many answers to the same question there are already."""

    @property
    def busy(self) -> bool:
        """A question is being answered, or waits."""
        return self.answer.phase is not None or self.waiting

    def want(self, *, again: int = 0) -> None:
        """The chat ends with a question; it waits until `send`."""
        self.answer.content = AnswerContent()
        self.waiting = True
        self._again, self._taken_back = again, ""

    def send(self, sampling: Sampling, *, opens_thinking: bool) -> None:
        """Ask the engine. `opens_thinking`: the model's template opens the thinking."""
        self.waiting = False
        request_id = self._engine.next_request_id()
        self.answer.begin(request_id, opens_thinking=opens_thinking)
        question = self._chat.conversation.leaf
        if question is not None:
            self._chat.keeper.answer_begins(question)
        wanted, self._again = drawn_anew(sampling, self._again), 0
        self._engine.send(Generate(request_id, turns=self._chat.turns_to_send, sampling=wanted))

    def stop(self) -> None:
        """Stop the answer; a question that still waits is taken back."""
        if self.answer.phase is not None:
            self.answer.phase = Phase.STOPPING
            self._engine.send(Cancel(self.answer.request_id))
        elif self.waiting:
            self.withdraw()

    def end(self, state: State, finished: Finished | None = None) -> None:
        """What was said stays in the chat; a question that got no word is taken back."""
        said = self.answer.end()
        if said:
            message = self._chat.conversation.add("assistant", said)
            message.stopped = state == "stopped"
            self._chat.keeper.answer_ended(message, self.answer.content, state, finished)
        else:
            self._chat.keeper.answer_dropped()
            self.withdraw()

    def give_up(self) -> None:
        """There is no engine: keep what was said, take back what waits."""
        if self.answer.phase is not None:
            self.end("failed")
        elif self.waiting:
            self.withdraw()
        self.waiting = False

    def forget(self) -> None:
        """The chat is left: stop, keep what was said, hear nothing more of the request."""
        self.stop()
        if self.answer.phase is not None:
            self.end("stopped")
        self.answer.forget()

    def withdraw(self) -> None:
        """Take the question back."""
        self.waiting = False
        self._taken_back = self._chat.withdraw() or self._taken_back

    @property
    def was_taken_back(self) -> bool:
        """A question was withdrawn, and `take_back` has not given it out."""
        return bool(self._taken_back)

    def take_back(self) -> str:
        """The text of a question that was withdrawn without a word of an answer; given out once."""
        text, self._taken_back = self._taken_back, ""
        return text


def drawn_anew(sampling: Sampling, again: int) -> Sampling:
    """As set; but for the `again`-th repetition of an answer otherwise, else it would be the same again."""
    if not again:
        return sampling
    temperature = sampling.temperature or AGAIN_TEMPERATURE
    return msgspec.structs.replace(sampling, temperature=temperature, seed=sampling.seed + again)
