"""Blocking use of an engine, for the command line: load, generate, score; every fault is an exception."""

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from ebbtide.app.received import Received
from ebbtide.app.sentences import sentence
from ebbtide.app.signals import STOPPING
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.errors import (
    ContextError,
    EbbtideError,
    EngineDied,
    FitError,
    ModelError,
    NetworkError,
    UsageError,
)
from ebbtide.engine.messages import (
    Arm,
    ArmWidths,
    Calibrate,
    Calibrated,
    Cancel,
    Clear,
    Count,
    Counted,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    Memory,
    Progress,
    Score,
    Scored,
    Snapshot,
    Token,
)

CANCEL_WAIT_S = 3.0
WAKE_S = 1.0
"""Waits are cut into pieces so that a signal is seen on every system."""

Answer = TypeVar("Answer", Loaded, Finished, Scored, Calibrated, ArmWidths, Counted)


class PackNeededError(FitError):
    """The model fits this budget only with a pack, and none was allowed to be made."""


_ERRORS: tuple[type[EbbtideError], ...] = (
    UsageError,
    ModelError,
    FitError,
    ContextError,
    NetworkError,
    EngineDied,
    EbbtideError,
)


def error_of(event: Failed) -> EbbtideError:
    """The exception that the engine meant; its traceback, if any, becomes a note."""
    kind = next((kind for kind in _ERRORS if kind.exit_code == event.exit_code), EbbtideError)
    kind = PackNeededError if event.needs_pack else kind
    error = kind(sentence(event.message), hint=sentence(event.hint))
    if isinstance(error, ContextError):
        error.question_tokens = event.question_tokens
    if event.detail:
        error.add_note(event.detail)
    return error


def _ignore(*_: object) -> None:
    pass


def _progress_to(use: Callable[[str, int, int], None]) -> Callable[[ClientEvent], None]:
    def see(event: ClientEvent) -> None:
        if isinstance(event, Progress):
            use(event.stage, event.done, event.total)

    return see


class Session:
    """One engine with one model. Use as a context manager; leaving it ends the engine."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._load_s, self._memory = 0.0, Memory()
        self.unfinished: Finished | None = None
        """What a `generate` that raised had produced: cancelled, if the engine still said so, or failed."""

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def load(self, load: Load, on_progress: Callable[[str, int, int], None] = _ignore) -> Loaded:
        """Open the model. Raises EbbtideError of every kind."""
        self._client.send(load)

        def see(event: ClientEvent) -> None:
            if isinstance(event, Progress):
                on_progress(event.stage, event.done, event.total)

        loaded = self._await(Loaded, 0, see)
        self._load_s, self._memory = loaded.load_s, loaded.memory
        return loaded

    def generate(
        self,
        request: Generate,
        on_text: Callable[[str], None] = _ignore,
        on_snapshot: Callable[[Snapshot], None] = _ignore,
    ) -> Finished:
        """Run a request to its end. Interrupted (Ctrl+C, SIGTERM, closed pipe), it is cancelled first.

        Raises EbbtideError of every kind. Whatever it raises, `unfinished` is what had come, if anything had.
        """
        self.unfinished = None
        received = Received(request.request_id, load_s=self._load_s, memory=self._memory)

        def see(event: ClientEvent) -> None:
            received.see(event)
            if isinstance(event, Token):
                on_text(event.text)
            elif isinstance(event, Snapshot):
                on_snapshot(event)

        try:
            self._client.send(request)
            return self._await(Finished, request.request_id, see)
        except (*STOPPING, BrokenPipeError):
            self.unfinished = self._cancel(request.request_id)
            raise
        except EbbtideError as error:
            if received or isinstance(error, EngineDied):
                self.unfinished = received.as_failed()
            raise

    def score(self, text: str, *, max_tokens: int = 0, at: ArmWidths | None = None) -> Scored:
        """Log-probabilities of `text`; at an arm's widths, also with every plane. Raises EbbtideError of
        every kind.
        """
        request_id = self._client.next_request_id()
        wish = Score(request_id, text, max_tokens=max_tokens)
        if at is not None:
            wish = msgspec.structs.replace(wish, widths=at.widths, against_full=True, follow=at.follows)
        self._client.send(wish)
        return self._await(Scored, request_id, _ignore)

    def arm(self, wish: Arm, on_progress: Callable[[str, int, int], None] = _ignore) -> ArmWidths:
        """Widths of an arm; the request's id is set here. Raises EbbtideError of every kind."""
        request_id = self._client.next_request_id()
        self._client.send(msgspec.structs.replace(wish, request_id=request_id))
        return self._await(ArmWidths, request_id, _progress_to(on_progress))

    def calibrate(
        self, wish: Calibrate, on_progress: Callable[[str, int, int], None] = _ignore
    ) -> Calibrated:
        """Calibrate the model. Interrupted, it is cancelled first. Raises EbbtideError of every kind."""
        try:
            self._client.send(wish)
            return self._await(Calibrated, wish.request_id, _progress_to(on_progress))
        except STOPPING:
            self._cancel(wish.request_id)
            raise

    def count(self, texts: list[str]) -> list[int]:
        """Tokens of each of `texts`, of any length. Raises EbbtideError of every kind."""
        request_id = self._client.next_request_id()
        self._client.send(Count(request_id, texts))
        return self._await(Counted, request_id, _ignore).tokens

    def clear(self) -> None:
        """Forget cached prefixes, so that the next request starts cold."""
        self._client.send(Clear())

    def next_request_id(self) -> int:
        return self._client.next_request_id()

    def _await(self, kind: type[Answer], request_id: int, see: Callable[[ClientEvent], None]) -> Answer:
        while True:
            event = self._client.next_event(WAKE_S)
            if isinstance(event, kind) and getattr(event, "request_id", 0) == request_id:
                return event
            if isinstance(event, Died):
                raise event.error()
            if isinstance(event, Failed) and event.request_id == request_id:
                raise error_of(event)
            if event is not None:
                see(event)

    def _cancel(self, request_id: int) -> Finished | None:
        self._client.send(Cancel(request_id))
        while (event := self._client.next_event(CANCEL_WAIT_S)) is not None:
            if isinstance(event, Finished) and event.request_id == request_id:
                return event
            if isinstance(event, Died | Failed):
                return None
        return None
