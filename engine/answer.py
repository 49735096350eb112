"""Answering one request, a step at a time: prefill chunks, then one token a step."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ebbtide.engine import messages as m
from ebbtide.engine import sampler
from ebbtide.engine.decisions import answered, prompt_read
from ebbtide.engine.errors import ContextError, UsageError
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.prefill_chunks import chunk_end
from ebbtide.engine.request import Request
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.stop import StopFilter
from ebbtide.engine.telemetry import RateLimit, RequestClock
from ebbtide.engine.text import Detokenizer, encode_chat

SNAPSHOT_INTERVAL_S = 0.25


def encode_prompt(runtime: Runtime, command: m.Generate) -> list[int]:
    """Token ids of the prompt; never empty. Raises UsageError and ContextError."""
    if command.text is not None:
        ids = runtime.tokenizer.encode(command.text, add_bos=True, parse_special=True)
    else:
        ids = encode_chat(runtime.tokenizer, runtime.template, command.turns, answers=runtime.answers)
    if not ids:
        raise UsageError("the prompt is empty", hint="Type a question, or pass one with -p.")
    if len(ids) >= runtime.ctx:
        raise _too_long(runtime, command, len(ids))
    return ids


def _too_long(runtime: Runtime, command: m.Generate, tokens: int) -> ContextError:
    """Says what is too long: the question alone, with the system prompt, or only the whole chat."""
    alone = [turn for turn in command.turns[:-1] if turn.role == "system"] + command.turns[-1:]
    if len(alone) < len(command.turns):
        question = len(encode_chat(runtime.tokenizer, runtime.template, alone))
    else:
        question = tokens
    what, ways = "the prompt", ["Shorten the prompt", "start a new chat"]
    if command.turns and question >= runtime.ctx:
        what, ways = "the question alone", ["Shorten it"]
        tokens = question
    if tokens < runtime.spec.context:
        ways.append("load the model with a larger --ctx")
    *first, last = ways
    hint = f"{', '.join(first)}, or {last}" if first else f"{last}: this model's context is no longer"
    error = ContextError(
        f"{what} has {tokens:,} tokens and the context holds {runtime.ctx:,}", hint=f"{hint}."
    )
    error.question_tokens = tokens if what == "the question alone" else 0
    return error


LEAST_MISSED, LEAST_LOOKUPS = 0.1, 1000


class Paged(NamedTuple):
    """The pager's counters at one moment, or between two."""

    hits: int = 0
    misses: int = 0
    moved_bytes: int = 0

    @classmethod
    def of(cls, runtime: Runtime) -> "Paged":
        pager = runtime.pager
        return cls() if pager is None else cls(pager.hits, pager.misses, pager.bytes_paged_in)

    @property
    def missed(self) -> float:
        """The share of the experts asked for that had to be read."""
        return self.misses / max(self.hits + self.misses, 1)

    @property
    def is_much(self) -> bool:
        """Whether reading experts took much of an answer's time; one of a few tokens does not tell."""
        return self.hits + self.misses >= LEAST_LOOKUPS and self.missed >= LEAST_MISSED

    def since(self, before: "Paged") -> "Paged":
        return Paged(*(now - then for now, then in zip(self, before, strict=True)))


class Answerer:
    """Turns one `Generate` into `Token`, `Snapshot` and `Finished` events; `step` does one forward pass."""

    def __init__(
        self,
        runtime: Runtime,
        command: m.Generate,
        emit: Callable[[m.Event], None],
        cancelled: Callable[[], bool],
    ) -> None:
        sampler.check(command.sampling)
        self._runtime, self._emit, self._cancelled = runtime, emit, cancelled
        self._limit = RateLimit(SNAPSHOT_INTERVAL_S)
        self._paged = Paged.of(runtime)
        self.paged = Paged()
        """Of the whole answer, once it is finished."""
        self.command = command
        self.finished = False
        clock = RequestClock(load_s=runtime.load_s)
        ids = encode_prompt(runtime, command)
        sequence = runtime.prefixes.begin(ids, exact=runtime.wants_exact_keys)
        room = runtime.ctx - len(ids)
        chat = command.text is None
        stops = [*command.stop, *(runtime.template.stop_strings if chat else ())]
        self._request = Request(
            command=command,
            ids=ids,
            prompt_tokens=len(ids),
            limit=min(command.max_tokens or room, room),
            sequence=sequence,
            cached_tokens=sequence.length,
            detokenizer=Detokenizer(runtime.tokenizer, strip_space=chat and runtime.tokenizer.adds_space),
            stop=StopFilter(stops),
            clock=clock,
        )

    @property
    def request_id(self) -> int:
        return self.command.request_id

    @property
    def context_used(self) -> int:
        """Tokens of prompt and answer that are read or written so far."""
        request = self._request
        return request.sequence.length if request.prefilling and not self.finished else len(request.ids)

    @property
    def next_tokens(self) -> tuple[int, int]:
        """(keys that the sequence has, those that the next step adds)."""
        request = self._request
        length = request.sequence.length
        if not request.prefilling:
            return length, 1
        return length, chunk_end(length, request.prompt_tokens, self._runtime.chunk_tokens) - length

    def step(self) -> None:
        """One prefill chunk or one token. Raises what the engine cannot mend; the caller then abandons."""
        request = self._request
        try:
            if self._cancelled():
                raise Cancelled
            self._prefill() if request.prefilling else self._decode()
        except Cancelled:
            request.finish_reason = "cancelled"
        except ContextError as error:
            # Memory for keys ran out in the middle: what was written stays with the user.
            if not request.completion:
                raise
            request.finish_reason = "context"
            self._finish(f"{error} {error.hint}")
            return
        self._runtime.check_ledger()
        if request.finish_reason is not None:
            self._finish()
        elif self._limit.ready():
            self._emit(self.snapshot())

    def _run(
        self, ids: list[int], lane: Lane, last: int
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Extend the sequence by `ids`; the `last` rows. On any failure the sequence is as before."""
        runtime, sequence = self._runtime, self._request.sequence
        start = sequence.length
        runtime.pool.extend(sequence, len(ids), runtime.fast.provenance(lane))
        sees_prompts = runtime.learner if lane is Lane.PREFILL else None
        try:
            return (sees_prompts or runtime.forward).hidden(
                np.asarray(ids, np.int32), start, runtime.kv_view(sequence), self._cancelled, last
            )
        except BaseException:
            runtime.pool.truncate(sequence, start)
            raise

    def _prefill(self) -> None:
        request, began = self._request, time.perf_counter()
        start = request.sequence.length
        end = chunk_end(start, request.prompt_tokens, self._runtime.chunk_tokens)
        is_last = end == request.prompt_tokens
        row = self._run(request.ids[start:end], Lane.PREFILL, int(is_last))
        if is_last:
            self._next_token(row)
        request.clock.mark_prefill(end - start, time.perf_counter() - began)
        if not request.prefilling:
            clock = request.clock
            self._emit(prompt_read(clock.prefilled_tokens, request.cached_tokens, clock.prefill_s))

    def _decode(self) -> None:
        self._next_token(self._run(self._request.ids[-1:], Lane.DECODE, 1))

    def _next_token(self, row: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        request, runtime = self._request, self._runtime
        runtime.forward.logits(row, runtime.logits[:1])
        position = len(request.ids)
        token = sampler.sample(
            runtime.logits[0], self.command.sampling, recent=request.ids, position=position
        )
        is_end = not self.command.ignore_end and runtime.tokenizer.is_end(token)
        shown = request.take(token, is_end=is_end, context_full=position + 1 >= runtime.ctx)
        if shown:
            self._emit(m.Token(self.request_id, shown, request.shown_ids()))

    def snapshot(self) -> m.Snapshot:
        request, runtime = self._request, self._runtime
        return m.Snapshot(
            request_id=self.request_id,
            phase="prefill" if request.prefilling else "decode",
            prompt_tokens=request.prompt_tokens,
            prompt_done=min(request.sequence.length, request.prompt_tokens),
            completion_tokens=len(request.completion),
            context_used=len(request.ids),
            context_size=runtime.ctx,
            decode_tok_s=request.clock.decode_tok_s,
            prefill_tok_s=request.clock.prefill_tok_s,
            memory=runtime.memory(),
            at_s=time.monotonic(),
            expert_hits=runtime.pager.hits if runtime.pager is not None else 0,
            expert_misses=runtime.pager.misses if runtime.pager is not None else 0,
        )

    def _finish(self, message: str = "") -> None:
        request, runtime = self._request, self._runtime
        shown = request.close()
        if shown or request.pending_ids:
            self._emit(m.Token(self.request_id, shown, request.shown_ids()))
        self._emit(self.snapshot())
        assert request.finish_reason is not None
        event = m.Finished(
            request_id=self.request_id,
            text=request.text,
            token_ids=request.completion,
            finish_reason=request.finish_reason,
            usage=request.usage,
            timings=request.clock.timings(),
            memory=runtime.memory(),
            message=message,
        )
        self.abandon()
        self._emit(event)
        self.paged = Paged.of(runtime).since(self._paged)
        self._emit(answered(event, *self.paged))

    def abandon(self) -> None:
        """Keep the valid prefix and the answer's ids for the next request, and let the sequence go."""
        if self.finished:
            return
        self.finished = True
        request = self._request
        self._runtime.prefixes.insert(request.ids[: request.sequence.length], request.sequence)
        self._runtime.pool.release(request.sequence)
        if self.command.text is None:
            # Whatever ended it: what was shown is what the next request will quote.
            self._runtime.answers.remember(request.completion, request.text)
