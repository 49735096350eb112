"""A model in this process that decodes greedily, for tools that time it."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load


class Decoder:
    """Goes on with its text from call to call, anew when the context is full. `settings`: fields of Load."""

    def __init__(self, path: Path, prompt: str = "", **settings: Any) -> None:
        self.runtime = Runtime.load(load(path, **settings), lambda *_: None)
        ids = self.runtime.tokenizer.encode(prompt, add_bos=False, parse_special=False)
        self._prompt = ids or [5]
        self._sequence = self.runtime.pool.new_sequence()
        self._begin()

    def seconds(self, tokens: int) -> float:
        """Of so many tokens; the prompt of a new beginning is not counted."""
        if self._sequence.length + tokens > self.runtime.ctx:
            self._begin()
        began = time.perf_counter()
        for _ in range(tokens):
            self._step([self._next], Lane.DECODE)
        return time.perf_counter() - began

    def close(self) -> None:
        self.runtime.pool.release(self._sequence)
        self.runtime.close()

    def _begin(self) -> None:
        self.runtime.pool.truncate(self._sequence, 0)
        for at in range(0, len(self._prompt), self.runtime.chunk_tokens):
            self._step(self._prompt[at : at + self.runtime.chunk_tokens], Lane.PREFILL)

    def _step(self, ids: list[int], lane: Lane) -> None:
        runtime, sequence = self.runtime, self._sequence
        start = sequence.length
        runtime.pool.extend(sequence, len(ids), Provenance(lane, runtime.kv.format))
        rows = runtime.forward.hidden(
            np.array(ids, np.int32), start, runtime.kv_view(sequence), lambda: False
        )
        runtime.forward.logits(rows[-1:], runtime.logits[:1])
        self._next = int(runtime.logits[0].argmax())
