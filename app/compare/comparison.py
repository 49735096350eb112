"""One comparison, from a command for the engine to the result."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from ebbtide.app.commands.bench import FIRST_TOKEN_PROMPT, check_context, machine_object
from ebbtide.app.commands.loading import open_session
from ebbtide.app.compare import llama_process
from ebbtide.app.compare.contenders import Ebbtide, LlamaCpp
from ebbtide.app.compare.least_limit import killed, too_small
from ebbtide.app.compare.limits import PROCESS_BYTES, Limits, inside, memory_limits
from ebbtide.app.compare.packs import pack_object, pages_from_a_pack
from ebbtide.app.compare.race import Race
from ebbtide.app.compare.read_ahead import read_ahead_bytes
from ebbtide.app.compare.result import ebbtide_object, llama_object, prompt_tokens, ratios, speeds
from ebbtide.app.compare.sample import Samples
from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.context import AppContext
from ebbtide.app.memory_cgroup import drop_caches
from ebbtide.app.session import PackNeededError, Session
from ebbtide.app.steadiness import steadiness_notes
from ebbtide.app.ticking import ticking
from ebbtide.engine.client import ENGINE_COMMAND
from ebbtide.engine.errors import EngineDied, FitError, UsageError
from ebbtide.engine.messages import Load, Loaded

SLACK_TOKENS = 64
"""A prompt of synthetic words is only about as long as is wanted."""
CONTEXT_STEP = 256
RESIDENT_SHARE = 2.5
"""Of the file's size: what two models in memory take, one of them perhaps with a repacked copy."""

PACK_HINT = "Add --pack yes (experts are then read from a pack), or give a larger --memory-limit."

Answer = TypeVar("Answer")


class Comparison:
    """`load` without a context gets one that the prompts fit; without a budget, one that the limit holds."""

    def __init__(
        self,
        context: AppContext,
        load: Load,
        prefill: list[int],
        decode: int,
        runs: int,
        *,
        budget_given: bool = False,
    ) -> None:
        self._context, self._load = context, load
        self._said: set[str] = set()
        """Notices of loads: each is told once, however often a model is loaded."""
        self._prefill, self._decode, self._runs = prefill, decode, runs
        self._ctx_given, self._budget_given = load.ctx > 0, budget_given
        file = Path(load.path).stat()
        self._file_bytes, self._device = file.st_size, file.st_dev
        if not self._ctx_given:
            longest = max(*prefill, FIRST_TOKEN_PROMPT + decode) + max(prefill) // 8 + SLACK_TOKENS
            self._load = msgspec.structs.replace(load, ctx=-(-longest // CONTEXT_STEP) * CONTEXT_STEP)

    def run(self, limit_bytes: int | None) -> dict[str, Any]:
        """The result without its command. Raises EbbtideError where ebbtide itself cannot run."""
        with memory_limits(limit_bytes) as limits:
            if limits.note:
                note(limits.note)
            if limits.budget and not self._budget_given:
                self._load = msgspec.structs.replace(self._load, budget=limits.budget)
            if limits.ours and limits.limit_bytes <= PROCESS_BYTES:
                self._refuse_if_too_small(limits)  # in there, the engine would be killed after a long while
            try:
                return self._race(limits)
            except EngineDied as death:
                if limits.ours and limits.ours.kills():
                    raise killed(limits.limit_bytes, budget_given=self._budget_given) from death
                raise

    def _race(self, limits: Limits) -> dict[str, Any]:
        engine = inside(limits.ours, self._context.engine_command or ENGINE_COMMAND)
        context = replace(self._context, engine_command=engine)
        together = self._fits_twice(limits)
        with ExitStack() as stack:
            ours = Ebbtide(lambda: self._open(context, limits))
            stack.callback(ours.rest)
            prompts = ours.prompts(self._prefill, self._decode)
            machine, pack_s = machine_object(ours.loaded), ours.loaded.pack_s
            plain = None
            if limits.ours and pages_from_a_pack(ours.loaded, self._load):
                plain = Ebbtide(lambda: self._open(context, limits, from_pack=False))
                stack.callback(plain.rest)
                together = False
            theirs = LlamaCpp(
                self._load.path,
                ours.loaded.threads,
                ours.loaded.ctx,
                inside(limits.theirs, llama_process.WORKER_COMMAND),
                kills=limits.kills,
            )
            stack.callback(theirs.rest)
            if not together:
                ours.rest()
            with ProgressPrinter() as progress, ticking(progress.update) as update:
                race = Race(
                    ours,
                    theirs,
                    prompts,
                    self._runs,
                    together=together,
                    plain=plain,
                    prepare=drop_caches if limits.ours else lambda: True,
                )
                *samples, without_pack = race.run(update)
            result = self._result(ours, theirs, (samples[0], samples[1]), machine, limits, together)
            if plain is None:
                return result
            return result | pack_object(plain, without_pack, samples[1], pack_s)

    def _result(
        self,
        ours: Ebbtide,
        theirs: LlamaCpp,
        samples: tuple[Samples, Samples],
        machine: dict[str, Any],
        limits: Limits,
        together: bool,
    ) -> dict[str, Any]:
        shared = {"model": Path(self._load.path).name, "machine": machine}
        llama = llama_object(theirs, samples[1], ours.loaded.threads)
        peaks = {"ebbtide": ours.process_peak_bytes, "llama.cpp": theirs.process_peak_bytes}
        built = " ".join((llama["configuration"] or {}).get("features", [])) or None
        return {
            **shared,
            "model_bytes": self._file_bytes,
            "runs": self._runs,
            "memory_limit_bytes": limits.limit_bytes if limits.ours else None,
            "read_ahead_bytes": read_ahead_bytes(self._device),
            "ebbtide": {**shared, **ebbtide_object(ours, samples[0])},
            "llama_cpp": {**shared, "machine": machine | {"isa": built}, **llama},
            **ratios(*samples),
            "prompt_tokens": prompt_tokens(*samples),
            "notes": [
                *self._notes(samples, limits, together),
                *filter(None, (limits.leak(who, peak) for who, peak in peaks.items())),
            ],
        }

    def _notes(self, samples: tuple[Samples, Samples], limits: Limits, together: bool) -> Iterator[str]:
        """What a reader should know about how it was measured."""
        if limits.note:
            yield limits.note
        if not together:
            yield "One model was in memory at a time: each was loaded anew for its turn."
        if self._load.device != "cpu":
            yield f"ebbtide was allowed a card (--device {self._load.device}); llama.cpp was not."
        for who, side in zip(("ebbtide", "llama.cpp"), samples, strict=True):
            yield from steadiness_notes(speeds(side), who)
        for measure, counts in prompt_tokens(*samples).items():
            if len(set(counts.values())) > 1:
                yield f"The prompt of {measure} has different tokens for both: {counts}."

    @contextmanager
    def _open(
        self, context: AppContext, limits: Limits, *, from_pack: bool = True
    ) -> Iterator[tuple[Session, Loaded]]:
        def enter() -> tuple[Session, Loaded]:
            load = self._load if from_pack else msgspec.structs.replace(self._load, pack="plain")
            return stack.enter_context(open_session(context, load, said=self._said))

        with ExitStack() as stack:
            session, loaded = self._enter(enter, limits)
            check_context(loaded, max(self._prefill), self._decode)
            yield session, loaded

    def _enter(self, enter: Callable[[], tuple[Session, Loaded]], limits: Limits) -> tuple[Session, Loaded]:
        try:
            return self._own_context(enter)
        except PackNeededError as error:
            if limits.budget and not self._budget_given:
                error.hint = PACK_HINT
            raise
        except (FitError, EngineDied):
            if limits.budget and not self._budget_given:
                self._refuse_if_too_small(limits)
            raise

    def _own_context(self, load: Callable[[], Answer]) -> Answer:
        """The model's own context may be shorter than wanted, and the prompts may fit it all the same."""
        try:
            return load()
        except UsageError:
            if self._ctx_given or not self._load.ctx:
                raise
            self._load = msgspec.structs.replace(self._load, ctx=0)
            return load()

    def _refuse_if_too_small(self, limits: Limits) -> None:
        """The engine is asked outside the limit what the model needs at least. Raises FitError."""

        def smallest_budget_bytes() -> int:
            with Session(self._context.make_client()) as session:
                load = msgspec.structs.replace(self._load, budget="0%")
                return session.load(load).smallest_budget_bytes

        refusal = too_small(limits.limit_bytes, self._own_context(smallest_budget_bytes))
        if refusal is not None:
            raise refusal

    def _fits_twice(self, limits: Limits) -> bool:
        """Whether both models may be in memory at once."""
        most = 2 * limits.limit_bytes if limits.ours else math.inf
        return bool(min(most, RESIDENT_SHARE * self._file_bytes) <= psutil.virtual_memory().available)
