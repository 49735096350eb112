"""One chat with one engine, without any screen: what people and events do to it.

The owner feeds it the events of its clients, one at a time and on one thread, and draws from its fields.
"""

import time

import msgspec

from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.chat_model import ChatModel, FindFetcher, no_fetcher
from ebbtide.app.conversation import Conversation, Message
from ebbtide.app.exchange import Exchange
from ebbtide.app.kept_chat import KeptChat
from ebbtide.app.phase import Phase
from ebbtide.app.session import error_of
from ebbtide.app.store import memory_store
from ebbtide.app.token_counts import Cost, TokenCounts
from ebbtide.app.token_rate import TokenRate, usual_tokens
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.messages import (
    Clear,
    Command,
    Counted,
    Failed,
    Finished,
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

COMES_BACK = "The model from before is being loaded again."
NEITHER = "The model from before cannot be loaded any more"
WAY_OUT = "/model chooses another; /model starter always works."


class ChatSession:
    """`chat` is what was said, `model` what answers, `exchange` the question and the answer under way."""

    def __init__(
        self,
        engine: EngineClient,
        load: Load,
        *,
        system: str = "",
        sampling: Sampling | None = None,
        find_fetcher: FindFetcher = no_fetcher,
        keeper: ChatKeeper | None = None,
    ) -> None:
        self.chat = KeptChat(keeper or ChatKeeper(memory_store()), system)
        self.model = ChatModel(engine, load, find_fetcher)
        self.exchange = Exchange(engine, self.chat)
        self.answer = self.exchange.answer
        self.sampling = sampling or Sampling()
        self._snapshot: Snapshot | None = None
        self._read: list[Message] = []
        """What the snapshot is about: the messages of its context."""
        self._read_system = ""
        self.finished: Finished | None = None
        self.memory: Memory | None = None
        """The latest ledger that is known."""
        self.error: EbbtideError | None = None
        self.rate = TokenRate()
        self.counts = TokenCounts(self.tell, engine.next_request_id, self.rate)
        self.draft = Cost()
        """Of what is being written in the prompt."""
        self._sent_usual = 0
        self._heard_at = time.monotonic()

    # --- how it stands

    @property
    def snapshot(self) -> Snapshot | None:
        """The latest of the engine; None once other messages would be sent than it is about."""
        is_read = self._read == self._sent and self._read_system == self.system
        return self._snapshot if self.busy or is_read else None

    @property
    def progress(self) -> Snapshot | None:
        """The latest of the answer that is being written, or was last; None until the engine has begun it."""
        snapshot = self.snapshot
        is_older = snapshot is not None and self.busy and not self.answer.owns(snapshot)
        return None if is_older else snapshot

    @property
    def _sent(self) -> list[Message]:
        return [message for message in self.conversation.path if not message.left_out]

    @property
    def phase(self) -> Phase:
        return self.answer.phase or self.model.state

    @property
    def silent_s(self) -> float:
        """How long the engine has not been heard of."""
        return time.monotonic() - self._heard_at

    @property
    def busy(self) -> bool:
        """A question is being answered, or waits for the model."""
        return self.exchange.busy

    @property
    def turns(self) -> list[Turn]:
        """The chat as it is shown."""
        return [message.turn for message in self.conversation.path]

    @property
    def conversation(self) -> Conversation:
        return self.chat.conversation

    @property
    def keeper(self) -> ChatKeeper:
        return self.chat.keeper

    @property
    def system(self) -> str:
        return self.chat.system

    @property
    def estimated_context(self) -> int:
        """About how many tokens of the context the chat will take with its next question."""
        return self.rate.tokens(self._usual_to_send()) if self.conversation.leaf is not None else 0

    @property
    def context(self) -> Cost:
        """Tokens of the chat so far, as the engine has read or counted them; until it has, about."""
        is_idle = self.phase is Phase.READY and not self.busy
        counted = self._counted() if is_idle and (self.snapshot is None or self._ended_early) else None
        if counted is not None:
            return Cost(counted)
        if self.snapshot is not None:
            return Cost(self.snapshot.context_used)
        return Cost(self.estimated_context, True)

    @property
    def _ended_early(self) -> bool:
        """The template adds an end to the last answer, which the engine has not read."""
        return self.finished is None or self.finished.finish_reason != "stop"

    @property
    def context_used(self) -> int:
        """The figure of `context`."""
        return self.context.tokens

    def _counted(self) -> int | None:
        """What the engine says to the chat as it is shown; None until it has said something."""
        sent = self._sent
        if not sent or any(message.is_growing for message in sent):
            return None
        texts = (self.system, *(message.text for message in sent))
        return self.counts.chat(texts, self._usual_to_send(), lambda: self.chat.turns_to_send)

    def too_long(self, tokens: int, *, alone: bool = False) -> str:
        """A warning where a question of so many tokens does not fit; empty where it does, or nobody knows.

        `alone`: it takes the place of an earlier one, and the chat behind it is not sent.
        """
        size = self.loaded.ctx if self.loaded is not None else 0
        used = 0 if alone else self.context_used
        if not size or tokens + used < size:
            return ""
        if tokens >= size:
            return f": more than the whole context ({size:,})"
        return f": the context has room for {max(size - used, 0):,}"

    def _usual_to_send(self) -> int:
        return usual_tokens(self.system) + sum(message.usual_tokens for message in self._sent)

    @property
    def load(self) -> Load:
        return self.model.load

    @property
    def loaded(self) -> Loaded | None:
        return self.model.loaded

    # --- the model

    def start(self) -> None:
        """Start the engine (or first the fetcher) and load. Main thread only: see EngineClient."""
        self.error, self._snapshot, self.memory = None, None, None
        self.counts.end()
        self.model.start()

    def close(self) -> None:
        """Keep what was said, and end the processes."""
        self.keeper.answer_grew(self.answer.content, last=True)
        self.model.close()

    def reload(self, load: Load) -> None:
        """Load another model, or the same with another budget, whatever is loaded or not by now; the chat
        stays, and a question that waits for the model waits for this one.
        """
        if self.answer.phase is not None:
            self.exchange.forget()
        if self.model.change(load):
            self.start()

    def reload_with_pack(self) -> None:
        """Allow a pack to be made, and load again."""
        self.reload(msgspec.structs.replace(self.load, pack="yes"))

    def tell(self, command: Command) -> None:
        """Pass on what the memory panel wants of the engine; nobody hears it while there is no engine."""
        self.model.tell(command)

    # --- questions

    def ask(self, text: str) -> Message:
        """Add a user turn and have it answered, after (re)loading the model if it has to be."""
        message = self.chat.ask(text)
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
        self._want_answer(again=len(question.children) if question is not None else 0)

    def stop(self) -> None:
        """Stop the answer; a question that still waits for the model is taken back."""
        self.exchange.stop()

    def take_back(self) -> str:
        """The text of a question that was withdrawn without a word of an answer; given out once."""
        return self.exchange.take_back()

    def _want_answer(self, *, again: int = 0) -> None:
        self.exchange.want(again=again)
        if self.phase in (Phase.DIED, Phase.FAILED):
            self.start()
        elif self.phase is Phase.READY:
            self._send()

    def _send(self) -> None:
        self.finished, self.error = None, None
        opens_thinking = self.loaded is not None and self.loaded.opens_thinking
        self._sent_usual, self._read = self._usual_to_send(), self._sent
        self._read_system = self.system
        self.exchange.send(self.sampling, opens_thinking=opens_thinking)

    # --- another chat

    def clear(self) -> None:
        """Begin a new chat, with the usual system prompt; an answer in progress is stopped, what it has said
        stays in the old one.
        """
        self.exchange.forget()
        self.chat.begin()
        if self.model.load.quality != "exact":
            self.tell(Clear())  # keys of the old chat would cost the new one's precision
        self._snapshot = None

    def open(self, chat_id: str) -> None:
        """Show a chat of the store. Raises StoreError; then nothing has changed."""
        self.keeper.store.get_chat(chat_id)
        self.exchange.forget()
        self.chat.open(chat_id)
        self._snapshot = None

    def fork(self, message: Message) -> None:
        """Go on in a new chat that shares the path down to `message`."""
        self.open(self.keeper.fork(message))

    # --- events

    def handle(self, event: ClientEvent) -> bool:
        """Take an event of the engine. Returns False for one that belongs to a forgotten request."""
        self._heard_at = time.monotonic()
        match event:
            case Progress():
                self.model.progress = event
            case Ledger():
                self.memory = event.memory
            case Loaded():
                self._on_loaded(event)
            case Died():
                self._on_died(event)
            case Counted():
                return self.counts.take(event)
            case Failed() if event.request_id == 0:
                self._on_load_failed(error_of(event), needs_pack=event.needs_pack)
            case Token() | Snapshot() | Finished() | Failed() if self.answer.owns(event):
                self._on_answer(event)
            case Failed():
                self.counts.take(event)
                return False
            case _:
                return False
        return True

    def handle_fetcher(self, event: ClientEvent) -> None:
        """Take an event of the fetcher: its end starts the engine."""
        match event:
            case Progress():
                self.model.progress = event
            case Failed():
                self._on_load_failed(error_of(event))
            case Made():
                self.model.was_made()
                self.start()
            case Died() if self.phase is Phase.FETCHING:
                self._on_load_failed(event.error())
            case _:
                pass

    def _on_loaded(self, event: Loaded) -> None:
        self.model.was_loaded(event)
        self.memory = event.memory
        self.counts.begin()
        self.keeper.model = event.name
        self.keeper.settings_changed()
        if self.exchange.waiting:
            self._send()

    def _on_load_failed(self, error: EbbtideError, *, needs_pack: bool = False) -> None:
        self.error = error
        if self.model.is_going_back:
            self.error = UsageError(f"{NEITHER}: {error}", hint=f"{error.hint} {WAY_OUT}".strip())
        if self.model.has_failed(needs_pack=needs_pack):
            self.start()
            self.error = UsageError(str(error), hint=f"{error.hint} {COMES_BACK}".strip())
        elif self.exchange.waiting:
            self.exchange.withdraw()

    def _on_died(self, event: Died) -> None:
        self.error = event.error()
        self._snapshot, self.memory = None, None
        self.counts.end()
        self.exchange.give_up()
        self.model.has_died()

    def _on_answer(self, event: Token | Snapshot | Finished | Failed) -> None:
        self._take_answer(event)
        leaf = self.conversation.leaf
        if not self.busy and leaf is not None and leaf.parent in self._read:
            self._read = [*self._read, leaf]  # the answer, which the engine has read too

    def _take_answer(self, event: Token | Snapshot | Finished | Failed) -> None:
        match event:
            case Token():
                self.answer.take(event)
                self.keeper.answer_grew(self.answer.content)
            case Snapshot():
                self._snapshot, self.memory = event, event.memory
            case Finished():
                self.finished, self.memory = event, event.memory
                self.rate.learn(self._sent_usual, event.usage.prompt)
                self.answer.text = event.text
                self.exchange.end("stopped" if event.finish_reason == "cancelled" else "complete", event)
            case Failed():
                self.error = error_of(event)
                self.exchange.end("failed")
