"""What has come of an answer so far, for the case that its end never comes."""

import time

from ebbtide.engine.client import ClientEvent
from ebbtide.engine.messages import Finished, Memory, Snapshot, Timings, Token, Usage


class Received:
    """Gathers the events of one request. `load_s` and `memory`: as the load left them."""

    def __init__(self, request_id: int, *, load_s: float, memory: Memory) -> None:
        self._request_id, self._load_s, self._memory = request_id, load_s, memory
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._snapshot: Snapshot | None = None
        self._began = self._last = time.perf_counter()
        self._first_token_s = self._max_gap_s = 0.0

    def __bool__(self) -> bool:
        """Whether a token has come."""
        return bool(self._ids)

    def see(self, event: ClientEvent) -> None:
        """Take an event of this request; others are ignored."""
        if isinstance(event, Token):
            self._time(time.perf_counter())
            self._texts.append(event.text)
            self._ids.extend(event.ids)
        elif isinstance(event, Snapshot):
            self._snapshot = event

    def as_failed(self) -> Finished:
        """The answer as far as it is known, with the reason "error"; what only the engine knew is 0.

        Times are those at which this process saw the tokens.
        """
        last = self._snapshot
        return Finished(
            request_id=self._request_id,
            text="".join(self._texts),
            token_ids=self._ids,
            finish_reason="error",
            usage=Usage(last.prompt_tokens if last else 0, 0, len(self._ids)),
            timings=Timings(
                load_s=self._load_s,
                first_token_s=self._first_token_s,
                prefill_tok_s=last.prefill_tok_s if last else 0.0,
                decode_tok_s=last.decode_tok_s if last else 0.0,
                max_gap_s=self._max_gap_s,
            ),
            memory=last.memory if last else self._memory,
        )

    def _time(self, now: float) -> None:
        if self._ids:
            self._max_gap_s = max(self._max_gap_s, now - self._last)
        else:
            self._first_token_s = now - self._began
        self._last = now
