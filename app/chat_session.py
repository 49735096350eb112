"""One chat with one engine, without any screen: turns, phases, and what each event changes.

The owner feeds it the events of its clients, one at a time and on one thread, and draws from its fields.
"""

from enum import StrEnum

import msgspec

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.conversation import Conversation, Message, newest_end
from ebbtide.app.session import error_of
from ebbtide.app.store import State, memory_store
from ebbtide.app.thinking import OPEN
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.messages import (
    Cancel,
    Command,
    Failed,
    Finished,
    Generate,
    Ledger,
    Load,
    Loaded,
    Made,
    Memory,
    Progress,
    Sampling,
    Snapshot,
    Token,
    Turn,
)


class Phase(StrEnum):
    """What is going on, in a word for the status line."""

    STARTING = "starting"
    FETCHING = "fetching"
    LOADING = "loading"
    READY = "ready"
    READING = "reading"
    ANSWERING = "answering"
    STOPPING = "stopping"
    FAILED = "no model"
    DIED = "engine died"


AGAIN_TEMPERATURE = 0.7
"""Of an answer that is wanted once more, where the setting is 0."""
STAYS = "The model that was loaded is loaded again as it was."
BUSY = {Phase.READING, Phase.ANSWERING, Phase.STOPPING}


class ChatSession:
    """`fetcher`, if given, is a background job that makes the model file first (the starter's first run)."""

    def __init__(
        self,
        engine: EngineClient,
        load: Load,
        *,
        system: str = "",
        sampling: Sampling | None = None,
        fetcher: EngineClient | None = None,
        keeper: ChatKeeper | None = None,
    ) -> None:
        self.load = load
        self.phase = Phase.STARTING
        self.keeper = keeper or ChatKeeper(memory_store())
        self.conversation = Conversation()
        self.content = AnswerContent()
        """What is being answered, or was last."""
        self.partial = ""
        self.progress: Progress | None = None
        self.loaded: Loaded | None = None
        self.snapshot: Snapshot | None = None
        self.finished: Finished | None = None
        self.error: EbbtideError | None = None
        self.needs_pack = False
        self.taken_back = ""
        """The question that got no word, until somebody takes it (`take_back`)."""
        self._engine = engine
        self._fetcher = fetcher
        self.system = self._usual_system = system
        self.sampling = sampling or Sampling()
        self._request_id = 0
        self._waiting = False
        self._memory: Memory | None = None
        self._fallback: Load | None = None
        """What was loaded before a reload that may fail."""
        self._again = 0
        """How many answers to the same question there are already."""

    @property
    def busy(self) -> bool:
        """A question is being answered, or waits for the model."""
        return self.phase in BUSY or self._waiting

    @property
    def turns(self) -> list[Turn]:
        """The chat as it is shown."""
        return [message.turn for message in self.conversation.path]

    @property
    def memory(self) -> Memory | None:
        """The latest ledger that is known."""
        return self._memory

    def start(self) -> None:
        """Start the engine (or first the fetcher) and load. Main thread only: see EngineClient."""
        self.error, self.progress, self.snapshot, self._memory = None, None, None, None
        if self._fetcher is not None:
            self.phase = Phase.FETCHING
            self._fetcher.restart()
            return
        self.phase = Phase.LOADING
        self._engine.restart()
        self._engine.send(self.load)

    def close(self) -> None:
        """End the processes."""
        for client in (self._fetcher, self._engine):
            if client is not None:
                client.close()

    def ask(self, text: str) -> Message:
        """Add a user turn and have it answered, after (re)loading the model if it has to be."""
        self.taken_back = ""
        message = self.conversation.add("user", text)
        self.keeper.asked(message)
        self._want_answer()
        return message

    def edit(self, message: Message, text: str) -> Message:
        """Ask `text` in the place of an earlier question; the old one stays as another version."""
        self.conversation.leaf = message.parent
        return self.ask(text)

    def regenerate(self, message: Message) -> None:
        """Have a question (or the question of an answer) answered once more, in other words."""
        question = message if message.role == "user" else message.parent
        self.conversation.leaf = question
        self._again = len(question.children) if question is not None else 0
        self._want_answer()

    def switch(self, message: Message, step: int) -> None:
        """Show another version of a message."""
        self.conversation.switch(message, step)
        self.keeper.shows(self.conversation.leaf)

    def leave_out_oldest(self, count: int) -> int:
        """Keep the oldest messages from the model, reversibly; returns how many it were."""
        messages = self.conversation.leave_out_oldest(count)
        self.keeper.left_out(messages, True)
        return len(messages)

    def set_left_out(self, message: Message, left_out: bool) -> None:
        """Keep a single message from the model, or send it again."""
        message.left_out = left_out
        self.keeper.left_out([message], left_out)

    def send_all(self) -> int:
        """Send what was left out again; returns how many messages it were."""
        messages = self.conversation.send_all()
        self.keeper.left_out(messages, False)
        return len(messages)

    def open(self, chat_id: str) -> None:
        """Show a chat of the store. Raises StoreError; then nothing has changed."""
        conversation = self.keeper.load(chat_id)
        self._forget_request()
        self.conversation = conversation
        self.snapshot = None
        self.system = self.keeper.system or self._usual_system

    def fork(self, message: Message) -> None:
        """Go on in a new chat that shares the path down to `message`."""
        self.open(self.keeper.fork(message))

    def _want_answer(self) -> None:
        self.content = AnswerContent()
        self._waiting = True
        if self.phase in (Phase.DIED, Phase.FAILED):
            self.start()
        elif self.phase is Phase.READY:
            self._send()

    def stop(self) -> None:
        """Stop the answer; a question that still waits for the model is taken back."""
        if self.phase in BUSY:
            self.phase = Phase.STOPPING
            self._engine.send(Cancel(self._request_id))
        elif self._waiting:
            self._withdraw()

    def tell(self, command: Command) -> None:
        """Pass on what the memory panel wants of the engine; nobody hears it while there is no engine."""
        if self._engine.running:
            self._engine.send(command)

    def clear(self) -> None:
        """Begin a new chat, with the usual system prompt; an answer in progress is stopped, what it has said
        stays in the old one.
        """
        self._forget_request()
        self.conversation = self.keeper.begin()
        self.system = self._usual_system
        self.snapshot = None

    def _forget_request(self) -> None:
        """Leave the chat: nothing of its request is heard any more."""
        self.stop()
        if self.phase in BUSY:
            self._keep_partial("stopped")
            self.phase = Phase.READY
        self._request_id = 0
        self.partial = ""

    def reload(self, load: Load) -> None:
        """Load another model, or the same with another budget; the chat stays."""
        if self.phase in BUSY:
            self._forget_request()
        self._fallback = self.load if self.phase is Phase.READY else None
        self.load = load
        self.snapshot, self.loaded = None, None
        self.start()

    def reload_with_pack(self) -> None:
        """Allow a pack to be made, and load again."""
        self.reload(msgspec.structs.replace(self.load, pack="yes"))

    def handle(self, event: ClientEvent) -> bool:
        """Take an event of the engine. Returns False for one that belongs to a forgotten request."""
        match event:
            case Progress():
                self.progress = event
            case Ledger():
                self._memory = event.memory
            case Loaded():
                self._on_loaded(event)
            case Died():
                self._on_died(event)
            case Token() | Snapshot() | Finished() | Failed() if event.request_id == 0 or self._is_current(
                event
            ):
                self._on_answer(event)
            case _:
                return False
        return True

    def handle_fetcher(self, event: ClientEvent) -> None:
        """Take an event of the fetcher: its end starts the engine."""
        match event:
            case Progress():
                self.progress = event
            case Failed():
                self._fail(error_of(event))
            case Made():
                self._fetcher, fetcher = None, self._fetcher
                if fetcher is not None:
                    fetcher.close()
                self.start()
            case Died() if self.phase is Phase.FETCHING:
                self._fail(event.error())
            case _:
                pass

    def _is_current(self, event: Token | Snapshot | Finished | Failed) -> bool:
        return event.request_id == self._request_id and self.phase in BUSY

    def _send(self) -> None:
        self._waiting = False
        self._request_id = self._engine.next_request_id()
        self.partial, self.finished, self.error = "", None, None
        if self.loaded is not None and self.loaded.opens_thinking:
            self.content.open_thinking()
        self.phase = Phase.READING
        question = self.conversation.leaf
        if question is not None:
            self.keeper.answer_begins(question)
        system = [Turn("system", self.system)] if self.system else []
        turns, sampling = [*system, *self.conversation.sent], self._next_sampling()
        self._engine.send(Generate(self._request_id, turns=turns, sampling=sampling))

    def _next_sampling(self) -> Sampling:
        """As set; but an answer that is wanted once more is drawn anew, else it would be the same again."""
        again, self._again = self._again, 0
        if not again:
            return self.sampling
        return msgspec.structs.replace(
            self.sampling,
            temperature=self.sampling.temperature or AGAIN_TEMPERATURE,
            seed=self.sampling.seed + again,
        )

    def take_back(self) -> str:
        """The text of a question that was withdrawn without a word of an answer; given out once."""
        text, self.taken_back = self.taken_back, ""
        return text

    def _withdraw(self) -> None:
        """Take back the last question, so that the next one does not follow an unanswered turn."""
        self._waiting = False
        question = self.conversation.leaf
        if question is None or question.role != "user":
            return
        if question.children:  # it was to be answered once more
            self.conversation.leaf = newest_end(question)
            self.keeper.shows(self.conversation.leaf)
        else:
            self.conversation.withdraw(question)
            self.taken_back = question.text
            self.keeper.withdrew(question)

    def _on_loaded(self, event: Loaded) -> None:
        self.loaded, self.progress, self.phase = event, None, Phase.READY
        self._memory, self._fallback = event.memory, None
        self.keeper.model = event.name
        self.keeper.settings_changed()
        if self._waiting:
            self._send()

    def _on_died(self, event: Died) -> None:
        self.error = event.error()
        if self.phase in BUSY:
            self._keep_partial("failed")
        elif self._waiting:
            self._withdraw()
        self._waiting = False
        self.phase = Phase.DIED
        self.progress = None

    def _on_answer(self, event: Token | Snapshot | Finished | Failed) -> None:
        match event:
            case Token():
                self.partial += event.text
                self.content.push(event.text, len(event.ids))
                self.keeper.answer_grew(self.content)
                if self.phase is Phase.READING:
                    self.phase = Phase.ANSWERING
            case Snapshot():
                self.snapshot, self._memory = event, event.memory
            case Finished():
                self.finished, self._memory = event, event.memory
                self.partial = event.text
                self._keep_partial("stopped" if event.finish_reason == "cancelled" else "complete", event)
                self.phase = Phase.READY
            case Failed() if event.request_id == 0:
                self.needs_pack = event.needs_pack
                self._fail(error_of(event))
            case Failed():
                self.error = error_of(event)
                self._keep_partial("failed")
                self.phase = Phase.READY

    def _fail(self, error: EbbtideError) -> None:
        self.error, self.progress, self.phase = error, None, Phase.FAILED
        fallback, self._fallback = self._fallback, None
        if fallback is not None and not self.needs_pack:
            self.load = fallback
            self.start()
            self.error = UsageError(str(error), hint=f"{error.hint} {STAYS}")
        elif self._waiting:
            self._withdraw()

    def _keep_partial(self, state: State, finished: Finished | None = None) -> None:
        """What was said stays in the chat; a question that got no word is taken back."""
        self.content.end()
        if self.partial.strip():
            opened = self.loaded is not None and self.loaded.opens_thinking
            text = f"{OPEN}\n{self.partial}" if opened else self.partial
            message = self.conversation.add("assistant", text)
            self.keeper.answer_ended(message, self.content, state, finished)
        else:
            self.keeper.answer_dropped()
            self._withdraw()
        self.partial = ""
