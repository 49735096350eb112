"""Interleaved pairs: one contender computes at a time, and who goes first alternates."""

from collections.abc import Callable, Iterator, Sequence

from ebbtide.app.compare.contenders import Ebbtide, LlamaCpp
from ebbtide.app.compare.llama_process import LlamaFailed
from ebbtide.app.compare.sample import DECODE, Contender, Prompt, Sample, Samples

Update = Callable[[str, int, int], None]
STAGE = "Racing ebbtide and llama.cpp"


class Race:
    """`together`: both models stay loaded; otherwise one is, and each turn loads its own.

    Where llama.cpp fails in the middle, the race starts again with its next configuration: samples of two
    configurations are no samples of one.
    """

    def __init__(
        self, ours: Ebbtide, theirs: LlamaCpp, prompts: Sequence[Prompt], runs: int, *, together: bool
    ) -> None:
        self._ours, self._theirs = ours, theirs
        self._prompts, self._runs, self._together = prompts, runs, together
        self._warm: set[Contender] = set()

    def run(self, update: Update) -> tuple[Samples, Samples]:
        """Samples of ebbtide and of llama.cpp; the latter's are empty when all its configurations failed."""
        while self._theirs.configuration is not None:
            try:
                ours, theirs = self._pairs([self._ours, self._theirs], update)
                return ours, theirs
            except LlamaFailed as failure:
                self._theirs.fall_back(failure)
                self._warm.discard(self._theirs)
        return self._pairs([self._ours], update)[0], {}

    def _pairs(self, contenders: Sequence[Contender], update: Update) -> list[Samples]:
        samples: list[Samples] = [{prompt.measure: [] for prompt in self._prompts} for _ in contenders]
        turns = [*zip(contenders, samples, strict=True)]
        total, done = self._runs * len(turns) * len(self._prompts), 0
        update(STAGE, 0, total)
        for pair in range(self._runs):
            for contender, into in turns if pair % 2 == 0 else turns[::-1]:
                for measure, sample in self._turn(contender):
                    into[measure].append(sample)
                    done += 1
                    update(STAGE, done, total)
        return samples

    def _turn(self, contender: Contender) -> Iterator[tuple[str, Sample]]:
        contender.ready()
        if contender not in self._warm:
            for prompt in self._prompts:
                if self._together or prompt.measure == DECODE:
                    contender.request(prompt)
            self._warm.add(contender)
        for prompt in self._prompts:
            yield prompt.measure, contender.request(prompt)
        if not self._together:
            contender.rest()
            self._warm.discard(contender)
