"""Runs a prompt and an answer through ebbtide's engine in this process and notes what each layer chose."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.runtime import Runtime

I32 = NDArray[np.int32]
CHUNK = 256


class Recording:
    """A loaded model without a request. Not for two threads."""

    def __init__(self, path: Path, *, budget: str = "100%", ctx: int = 2048, threads: int = 0) -> None:
        """Raises EbbtideError, also for a model without experts."""
        load = m.Load(str(path), budget=budget, ctx=ctx, threads=threads, device="cpu", pack="no")
        self.runtime = Runtime.load(load, lambda *_: None)
        assert self.runtime.pager is not None, "a model without experts routes nothing"
        self.pager, self._groups = self.runtime.pager, self.runtime.pager.groups
        self._chosen: list[list[I32]] = [[] for _ in range(self.runtime.spec.layers)]
        self.pager.groups = self._noted  # type: ignore[method-assign]
        self._sequence = self.runtime.pool.new_sequence()

    def _noted(self, layer: int, experts: NDArray[np.integer]) -> Iterator[NDArray[np.uint8]]:
        self._chosen[layer].append(np.array(experts, np.int32))
        return self._groups(layer, experts)

    def read(self, ids: list[int]) -> None:
        """Run these tokens behind all before them, in chunks as the engine makes them."""
        while ids:
            count = min(CHUNK - self._sequence.length % CHUNK, len(ids))
            self._pass(ids[:count], Lane.PREFILL if count > 1 else Lane.DECODE)
            ids = ids[count:]

    def answer(self, count: int) -> list[int]:
        """Run the likeliest next token, `count` times; the tokens. To be called after `read`."""
        said = []
        for _ in range(count):
            said.append(int(self.logits.argmax()))
            self._pass(said[-1:], Lane.DECODE)
        return said

    def _pass(self, ids: list[int], lane: Lane) -> None:
        runtime, start = self.runtime, self._sequence.length
        runtime.pool.extend(self._sequence, len(ids), Provenance(lane, runtime.kv.format))
        view = runtime.kv_view(self._sequence)
        hidden = runtime.forward.hidden(np.array(ids, np.int32), start, view, lambda: False)
        runtime.forward.logits(hidden[-1:], runtime.logits[:1])

    @property
    def logits(self) -> NDArray[np.float32]:
        """Scores of the token behind the last one that was run, f32[vocabulary]."""
        scores: NDArray[np.float32] = self.runtime.logits[0]
        return scores

    def taken(self) -> list[I32]:
        """What each layer chose since the last call, of one token at least: a list of [tokens, top_k]."""
        taken = [np.concatenate(chosen) for chosen in self._chosen]
        self._chosen = [[] for _ in taken]
        return taken

    def close(self) -> None:
        """End the engine's threads; the memory goes with the last reference."""
        self.runtime.pool.release(self._sequence)
        self.runtime.close()
