"""One request from its prompt to its last token: what is known about it between two steps."""

from dataclasses import dataclass, field

from ebbtide.engine.memory.kv import KvSequence
from ebbtide.engine.messages import FinishReason, Generate, Usage
from ebbtide.engine.stop import StopFilter
from ebbtide.engine.telemetry import RequestClock
from ebbtide.engine.text import Detokenizer


@dataclass
class Request:
    """A `Generate` command being answered.

    `ids` = prompt + completion. Keys exist for the first `sequence.length` of them; the last id never has one
    yet.
    """

    command: Generate
    ids: list[int]
    prompt_tokens: int
    limit: int
    """Most tokens of the completion: what was asked for, or what the context still holds."""
    sequence: KvSequence
    cached_tokens: int
    detokenizer: Detokenizer
    stop: StopFilter
    clock: RequestClock
    text: str = ""
    finish_reason: FinishReason | None = None
    pending_ids: list[int] = field(default_factory=list)
    """Ids whose text has not been shown yet (an incomplete character or a possible stop string)."""

    @property
    def request_id(self) -> int:
        return self.command.request_id

    @property
    def completion(self) -> list[int]:
        return self.ids[self.prompt_tokens :]

    @property
    def prefilling(self) -> bool:
        return self.sequence.length < self.prompt_tokens

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.cached_tokens, len(self.completion))

    def take(self, token: int, *, is_end: bool, context_full: bool) -> str:
        """Append a sampled token; returns the text that may be shown now and sets `finish_reason` at an
        end.
        """
        self.clock.mark_token()
        self.ids.append(token)
        self.pending_ids.append(token)
        shown = "" if is_end else self.stop.push(self.detokenizer.push(token))
        if is_end or self.stop.stopped:
            self.finish_reason = "stop"
        elif len(self.completion) >= self.limit:
            self.finish_reason = "context" if context_full else "length"
        self.text += shown
        return shown

    def close(self) -> str:
        """Text still held back, now that no token follows (empty after a stop string). The beginning of a
        character whose end was not waited for is no text.
        """
        rest = self.detokenizer.flush() if self.finish_reason == "stop" else ""
        shown = "" if self.stop.stopped else self.stop.push(rest) + self.stop.flush()
        self.text += shown
        return shown

    def shown_ids(self) -> list[int]:
        """Ids since the last call: they belong to the text shown now."""
        ids, self.pending_ids = self.pending_ids, []
        return ids
