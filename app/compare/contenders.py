"""The two who race: ebbtide's engine and llama.cpp, each in its own process."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

from ebbtide.app.cold_requests import ColdRequests
from ebbtide.app.compare.configurations import CONFIGURATIONS, Configuration
from ebbtide.app.compare.llama_process import LlamaFailed, LlamaProcess
from ebbtide.app.compare.sample import DECODE, Prompt, Sample
from ebbtide.app.session import Session
from ebbtide.engine.messages import Finished, Loaded, Memory

DECODE_PROMPT = 32
PROBE = Prompt("probe", "the first thing that people say", 4)


class Patience(NamedTuple):
    """Seconds after which llama.cpp counts as hung."""

    load_s: float = 900.0
    probe_s: float = 300.0
    run_s: float = 1800.0


PATIENCE = Patience()


class Ebbtide:
    """`open_session` starts an engine with the model in it."""

    def __init__(self, open_session: Callable[[], AbstractContextManager[tuple[Session, Loaded]]]) -> None:
        self._open_session = open_session
        self._open: ExitStack | None = None
        self.memory = Memory()
        """As of the last request."""
        self.process_peak_bytes = 0
        """Over all lives of the process."""

    def ready(self) -> None:
        if self._open is None:
            stack = ExitStack()
            session, self.loaded = stack.enter_context(self._open_session())
            self._open = stack
            self._requests = ColdRequests(session)

    def prompts(self, prefill: Sequence[int], decode: int) -> list[Prompt]:
        """What both contenders get."""
        self.ready()
        text = self._requests.text
        prompts = [Prompt(str(count), text(count, count), 1) for count in prefill]
        return [Prompt(DECODE, text(DECODE_PROMPT, 1), decode), *prompts]

    def request(self, prompt: Prompt) -> Sample:
        finished = self._requests.send(prompt.text, prompt.answer_tokens)
        self.memory = finished.memory
        self.process_peak_bytes = max(self.process_peak_bytes, finished.memory.process_peak_bytes)
        return sample_of(finished)

    def rest(self) -> None:
        stack, self._open = self._open, None
        if stack is not None:
            stack.close()


def sample_of(finished: Finished) -> Sample:
    timings = finished.timings
    counts = finished.usage.prompt, finished.usage.completion
    return Sample(*counts, timings.prefill_tok_s, timings.decode_tok_s, timings.first_token_s)


class LlamaCpp:
    """Tries its configurations in their order; one works once it has read a prompt and decoded a few tokens.

    `ready` and `request` raise LlamaFailed; `fall_back` then goes on to the next configuration.
    """

    def __init__(
        self,
        model: str,
        threads: int,
        ctx: int,
        command: Sequence[str],
        *,
        patience: Patience | None = None,
        configurations: Sequence[Configuration] = CONFIGURATIONS,
        kills: Callable[[], int] = lambda: 0,
    ) -> None:
        self._question = {"do": "load", "model": os.path.abspath(model), "threads": threads, "ctx": ctx}  # noqa: PTH100
        self._command, self._patience, self._kills = command, patience or PATIENCE, kills
        self._left = list(configurations)
        self._process: LlamaProcess | None = None
        self._kills_before = 0
        self.failures: list[dict[str, str]] = []
        self.described: dict[str, Any] = {}
        """What the worker says about itself, once it is loaded."""
        self.process_peak_bytes = 0

    @property
    def configuration(self) -> Configuration | None:
        """The one that runs or is next; None when all have failed."""
        return self._left[0] if self._left else None

    def ready(self) -> None:
        if self._process is not None or not self._left:
            return
        self._process = LlamaProcess(self._command)
        load = self._question | {"parameters": self._left[0].parameters}
        self.described = self._process.ask(load, self._patience.load_s)
        self._ask(PROBE, self._patience.probe_s)

    def request(self, prompt: Prompt) -> Sample:
        return self._ask(prompt, self._patience.run_s)

    def rest(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def fall_back(self, failure: LlamaFailed) -> None:
        """Note what happened, and set the next configuration, if any, in its place."""
        self.rest()
        text, kills = str(failure), self._kills()
        if kills > self._kills_before:
            text = "was killed: it needed more memory than the limit"
        self._kills_before = kills
        self.failures.append({"configuration": self._left.pop(0).name, "failure": text})
        self.process_peak_bytes = 0

    def _ask(self, prompt: Prompt, patience_s: float) -> Sample:
        assert self._process is not None
        question = {"do": "run", "text": prompt.text, "tokens": prompt.answer_tokens}
        answer = self._process.ask(question, patience_s)
        try:
            self.process_peak_bytes = max(self.process_peak_bytes, int(answer["peak_bytes"]))
            return _sample(answer, prompt.answer_tokens)
        except (KeyError, TypeError, ValueError) as error:
            raise LlamaFailed("said something unreadable") from error


def _sample(answer: dict[str, Any], answer_tokens: int) -> Sample:
    count, prefill_s, decode_s = answer["prompt_tokens"], answer["prefill_s"], answer["decode_s"]
    return Sample(
        int(count),
        answer_tokens,
        count / max(prefill_s, 1e-9),
        (answer_tokens - 1) / max(decode_s, 1e-9),
        float(answer["first_token_s"]),
    )
