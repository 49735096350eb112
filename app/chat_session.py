"""One chat with one engine, without any screen: turns, phases, and what each event changes.

The owner feeds it the events of its clients, one at a time and on one thread, and draws from its fields.
"""

from enum import StrEnum

import msgspec

from ebbtide.app.session import error_of
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.messages import (
    Cancel,
    Command,
    Failed,
    Finished,
    Generate,
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
    ) -> None:
        self.load = load
        self.phase = Phase.STARTING
        self.turns: list[Turn] = []
        self.partial = ""
        self.progress: Progress | None = None
        self.loaded: Loaded | None = None
        self.snapshot: Snapshot | None = None
        self.finished: Finished | None = None
        self.error: EbbtideError | None = None
        self.needs_pack = False
        self._engine = engine
        self._fetcher = fetcher
        self._system = system
        self._sampling = sampling or Sampling()
        self._request_id = 0
        self._waiting = False

    @property
    def busy(self) -> bool:
        """A question is being answered, or waits for the model."""
        return self.phase in BUSY or self._waiting

    @property
    def memory(self) -> Memory | None:
        """The latest ledger that is known."""
        if self.snapshot is not None:
            return self.snapshot.memory
        return self.loaded.memory if self.loaded is not None else None

    def start(self) -> None:
        """Start the engine (or first the fetcher) and load. Main thread only: see EngineClient."""
        self.error, self.progress, self.snapshot = None, None, None
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

    def ask(self, text: str) -> None:
        """Add a user turn and have it answered, after (re)loading the model if it has to be."""
        self.turns.append(Turn("user", text))
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
        """Begin a new chat; an answer in progress is stopped and forgotten."""
        self.stop()
        self._request_id = 0
        if self.phase in BUSY:
            self.phase = Phase.READY
        self.turns.clear()
        self.partial = ""

    def reload_with_pack(self) -> None:
        """Allow a pack to be made, and load again."""
        self.load = msgspec.structs.replace(self.load, pack="yes")
        self.start()

    def handle(self, event: ClientEvent) -> bool:
        """Take an event of the engine. Returns False for one that belongs to a forgotten request."""
        match event:
            case Progress():
                self.progress = event
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
        self.phase = Phase.READING
        system = [Turn("system", self._system)] if self._system else []
        self._engine.send(Generate(self._request_id, turns=[*system, *self.turns], sampling=self._sampling))

    def _withdraw(self) -> None:
        """Take back the last question, so that the next one does not follow an unanswered turn."""
        self._waiting = False
        if self.turns and self.turns[-1].role == "user":
            self.turns.pop()

    def _on_loaded(self, event: Loaded) -> None:
        self.loaded, self.progress, self.phase = event, None, Phase.READY
        if self._waiting:
            self._send()

    def _on_died(self, event: Died) -> None:
        self.error = event.error()
        self._keep_partial()
        self._waiting = False
        self.phase = Phase.DIED
        self.progress = None

    def _on_answer(self, event: Token | Snapshot | Finished | Failed) -> None:
        match event:
            case Token():
                self.partial += event.text
                if self.phase is Phase.READING:
                    self.phase = Phase.ANSWERING
            case Snapshot():
                self.snapshot = event
            case Finished():
                self.finished = event
                self.partial = event.text
                self._keep_partial()
                self.phase = Phase.READY
            case Failed() if event.request_id == 0:
                self.needs_pack = event.needs_pack
                self._fail(error_of(event))
            case Failed():
                self.error = error_of(event)
                self._keep_partial()
                self.phase = Phase.READY

    def _fail(self, error: EbbtideError) -> None:
        self.error, self.progress, self.phase = error, None, Phase.FAILED
        if self._waiting:
            self._withdraw()

    def _keep_partial(self) -> None:
        """What was said stays in the chat; a question that got no word is taken back."""
        if self.partial.strip():
            self.turns.append(Turn("assistant", self.partial))
        elif self.turns and self.turns[-1].role == "user":
            self.turns.pop()
        self.partial = ""
