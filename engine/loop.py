"""The engine's life: commands in, events out, one step at a time with a safe point between two steps."""

import queue
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ebbtide.engine import messages as m
from ebbtide.engine.answer import Answerer, Paged
from ebbtide.engine.counting import Counter
from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.device.faults import card_fault
from ebbtide.engine.errors import ContextError, EbbtideError, UsageError
from ebbtide.engine.hands import bound_by_hand, by_hand
from ebbtide.engine.idle import Filled, Interrupted, Warming
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.residency import residency
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import score
from ebbtide.engine.telemetry import RateLimit
from ebbtide.engine.text.chat_encoding import encode_chat
from ebbtide.engine.trades import Trades
from ebbtide.engine.watcher import Watcher

if TYPE_CHECKING:
    from ebbtide.engine.precision.bounds import Bounds
    from ebbtide.engine.precision.keeper import WidthKeeper

PROGRESS_INTERVAL_S = 0.05

Request = m.Load | m.Generate | m.Score | m.Calibrate | m.Arm
"""What waits its turn."""


class Commands(Protocol):
    """Where commands come from (the pipe, or a list in tests)."""

    def next(self, *, wait: bool) -> m.Command | None: ...

    def is_cancelled(self, request_id: int) -> bool: ...

    def forget(self, request_id: int) -> None: ...


class Engine:
    """Holds at most one loaded model. Loads and requests are served in order of arrival.

    Every failure of a request becomes a `Failed` or `Finished` event of that request; the engine goes on.
    `watch_rate` hears how often viewers want to look, in seconds (0: nobody does). `counter`, if given,
    answers each `Count` in the place of this one, which would do so at the next safe point. `uses` hears
    which file is open.
    """

    def __init__(
        self,
        emit: Callable[[m.Event], None],
        commands: Commands,
        watch_rate: Callable[[float], None] = lambda every_s: None,
        counter: Counter | None = None,
        uses: Callable[[str], None] = lambda model: None,
    ) -> None:
        self._emit, self._commands = emit, commands
        self._counter = counter or Counter(emit)
        if counter is not None:
            counter.is_busy = lambda: self._answer is not None
        self._uses = uses
        self._watcher = Watcher(emit, watch_rate)
        self._runtime: Runtime | None = None
        self._waiting: deque[Request] = deque()
        self._answer: Answerer | None = None
        self._arrived: deque[m.Command | None] = deque()
        self._warming: Warming | None = None
        self._filled: Filled | None = None
        """By the last warming that went to its end."""
        self._trades: Trades | None = None
        self._widths: WidthKeeper | None = None
        """Of a model whose widths may change."""
        self._advises: m.Load | None = None
        """How a model was loaded of which nothing was advised yet."""

    def card(self) -> tuple[str, CardMemory] | None:
        """Name and memory of the card that the model is on; None = on none. For any thread."""
        runtime = self._runtime
        return runtime.room.card() if runtime is not None else None

    def run(self) -> None:
        """Work until `Shutdown` or the end of the commands."""
        while True:
            busy = self._answer is not None or bool(self._waiting) or self._has_idle_work
            if not busy and not self._arrived and self._runtime is not None:
                self._watcher.rest(partial(residency, self._runtime, self._bounds))
            try:
                command = self._arrived.popleft() if self._arrived else self._commands.next(wait=not busy)
            except queue.Empty:
                self._step()
                continue
            if command is None or isinstance(command, m.Shutdown):
                break
            self._guard(command, self._handle)
        self._close_widths()
        if self._runtime is not None:
            self._runtime.close()

    @property
    def _has_idle_work(self) -> bool:
        if self._warming is not None or (self._widths is not None and self._widths.has_work):
            return True
        return self._has_learnt

    @property
    def _has_learnt(self) -> bool:
        learner = self._runtime.learner if self._runtime is not None else None
        return learner is not None and learner.is_due

    # --- commands -------------------------------------------------------------------------------------------

    def _handle(self, command: m.Command) -> None:
        if isinstance(command, Request):
            self._waiting.append(command)
        elif isinstance(command, m.Cancel):
            self._cancel(command.request_id)
        elif isinstance(command, m.Watch):
            self._watcher.watch(command)
        elif isinstance(command, m.Pin | m.Evict):
            self._emit(by_hand(self._runtime, command))
            self._tell_memory()
        elif isinstance(command, m.Bound):
            self._emit(bound_by_hand(self._runtime, self._widths, command))
        elif isinstance(command, m.Count):
            self._emit(self._counter.answer(command))
        elif isinstance(command, m.CountChat):
            self._emit(m.Counted(command.request_id, [self._count_chat(command.turns)]))
        elif isinstance(command, m.Clear) and self._runtime is not None:
            self._runtime.forget()
            self._wake_widths()

    def _count_chat(self, turns: list[m.Turn]) -> int:
        """As many as `Generate` would read. To look up how answers were spelled is no use of them."""
        runtime = self._runtime
        if runtime is None:
            raise UsageError("no model is loaded", hint="Load a model first.")
        answers = runtime.answers.copy()
        return len(
            encode_chat(
                runtime.tokenizer, runtime.template, turns, add_generation_prompt=False, answers=answers
            )
        )

    def _load(self, command: m.Load) -> None:
        if self._runtime is not None:
            self._close_widths()
            self._runtime.close()
            self._runtime = self._warming = self._trades = self._widths = self._counter.tokenizer = None
        self._uses(command.path)
        try:
            self._runtime = Runtime.load(command, self._report())
            if command.learn:
                _learn(self._runtime, command)
            if command.quality != "exact":
                self._widths = _keep_widths(self._runtime, command, self._report(), self._emit)
        except BaseException:
            self._uses("")
            if self._runtime is not None:
                self._runtime.close()
                self._runtime = None
            raise
        self._counter.tokenizer = self._runtime.tokenizer
        self._warming = Warming(self._runtime, self._emit) if self._runtime.pager is not None else None
        self._trades = Trades(self._runtime, self._emit)
        self._advises = command
        self._emit(self._runtime.loaded())
        self._emit(self._runtime.budget_decision(command.budget))
        if self._widths is not None:
            self._widths.begun()

    def _report(self) -> Callable[[str, int, int], None]:
        """Progress events, few enough for a bar; the last of a stage always."""
        limit = RateLimit(PROGRESS_INTERVAL_S)

        def report(stage: str, done: int, total: int) -> None:
            if limit.ready() or done == total:
                self._emit(m.Progress(stage, done, total))

        return report

    def _cancel(self, request_id: int) -> None:
        """Drop a request that has not begun; one that runs sees the cancel by itself."""
        for command in list(self._waiting):
            if not isinstance(command, m.Load) and command.request_id == request_id:
                self._waiting.remove(command)
                memory = self._runtime.memory() if self._runtime else m.Memory()
                usage, timings = m.Usage(0, 0, 0), m.Timings()
                self._emit(m.Finished(request_id, "", [], "cancelled", usage, timings, memory))
        if self._answer is None or self._answer.request_id != request_id:
            self._commands.forget(request_id)

    # --- steps ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._answer is None and self._waiting:
            command = self._waiting.popleft()
            self._guard(command, self._begin)
        elif self._answer is not None:
            answer = self._answer
            self._guard(answer.command, lambda _: self._step_of(answer))
            if answer.finished:
                self._answer = None
                self._commands.forget(answer.request_id)
                self._wake_widths()
            self._look(answer.context_used, last=answer.finished)
            if answer.finished:
                self._advise(answer.paged)
        elif self._widths is not None and self._widths.has_work:
            self._widths.rest()
            if self._runtime is not None:
                self._watcher.look(partial(residency, self._runtime, self._bounds))
            if not self._widths.has_work:
                self._fill_again()
        elif self._warming is not None:
            self._warm()
        elif self._runtime is not None and self._runtime.learner is not None:
            self._emit(self._runtime.learner.rest())

    def _advise(self, paged: Paged) -> None:
        """Once a load, where reading experts holds answers up: what narrower ones would buy and cost."""
        if self._runtime is not None and self._advises is not None and paged.is_much:
            advice = _advice(self._runtime, self._advises.cache_dir, paged.missed)
            self._advises = None
            if advice is not None:
                self._emit(advice)

    def _step_of(self, answer: Answerer) -> None:
        """What a step needs is made room for first."""
        if self._widths is not None:
            self._widths.look(*answer.next_tokens)
        answer.step()

    def _fill_again(self) -> None:
        """Widths are what they should be now: experts that are not there may fit."""
        assert self._runtime is not None
        if self._warming is None and self._filled is not None and self._filled.may_take_more(self._runtime):
            self._warming = Warming(self._runtime, self._emit)

    def _close_widths(self) -> None:
        if self._widths is not None:
            self._widths.close()

    @property
    def _bounds(self) -> "Bounds | None":
        return self._widths.bounds if self._widths is not None else None

    def _wake_widths(self) -> None:
        """Memory may be free that was not before."""
        if self._widths is not None:
            self._widths.wake()

    def _look(self, context: int, *, last: bool) -> None:
        """After a step of an answer: what memory did, for the log and for those who watch."""
        if self._runtime is not None and self._trades is not None:
            self._trades.look(context, last=last)
            if self._widths is not None:
                self._widths.tell(last=last)
            self._watcher.look(partial(residency, self._runtime, self._bounds))

    def _begin(self, command: m.Command) -> None:
        assert isinstance(command, Request)
        if isinstance(command, m.Load):
            self._load(command)
            return
        if self._runtime is None:
            raise UsageError("no model is loaded", hint="Load a model first.")

        def cancelled() -> bool:
            return self._commands.is_cancelled(command.request_id)

        if isinstance(command, m.Score):
            self._emit(score(self._runtime, command, cancelled))
            return
        if isinstance(command, m.Calibrate):
            self._emit(_calibrate(self._runtime, command, self._report(), cancelled))
            return
        if isinstance(command, m.Arm):
            self._emit(_choose(self._runtime, command, self._report(), cancelled))
            return
        self._answer = Answerer(self._runtime, command, self._emit, cancelled)
        if self._trades is not None:
            self._trades.begin(self._answer.context_used)

    def _warm(self) -> None:
        """Idle work, until a command arrives."""
        assert self._runtime is not None and self._warming is not None
        picture = partial(residency, self._runtime, self._bounds)

        def look() -> None:
            self._watcher.look(picture)
            try:
                self._arrived.append(self._commands.next(wait=False))
            except queue.Empty:
                return
            raise Interrupted

        self._warming.work(look)
        if self._warming.over:
            self._warming, self._filled = None, Filled.of(self._runtime)
            self._tell_memory()

    def _tell_memory(self) -> None:
        """Between requests nothing else does."""
        if self._runtime is not None and self._answer is None:
            self._emit(m.Ledger(self._runtime.memory()))

    def _guard(self, command: m.Command, action: Callable[[m.Command], None]) -> None:
        """Run `action`; a failure ends the request (or the load) with a `Failed` event, not the engine.

        Where the card is lost, so is everything: that ends the engine.
        """
        request_id = getattr(command, "request_id", 0)
        try:
            action(command)
        except BrokenPipeError:
            raise
        except Exception as error:
            if card_fault(error) == "lost":
                raise
            self._end_answer()
            self._emit(_failure(request_id, error))

    def _end_answer(self) -> None:
        if self._answer is not None:
            self._answer.abandon()
            self._commands.forget(self._answer.request_id)
            self._answer = None
            self._wake_widths()


def _calibrate(
    runtime: Runtime,
    command: m.Calibrate,
    progress: Callable[[str, int, int], None],
    cancelled: Callable[[], bool],
) -> m.Calibrated:
    from ebbtide.engine.precision.calibrating import calibrate  # few engines ever do

    return calibrate(runtime, command, progress, cancelled)


def _learn(runtime: Runtime, command: m.Load) -> None:
    from ebbtide.engine.precision.learning import open_learner  # measurements never do

    runtime.learner, notices = open_learner(runtime, command.cache_dir)
    runtime.notices = (*runtime.notices, *notices)


def _choose(
    runtime: Runtime,
    command: m.Arm,
    progress: Callable[[str, int, int], None],
    cancelled: Callable[[], bool],
) -> m.ArmWidths:
    from ebbtide.engine.precision.arm_choice import choose_arm  # few engines ever do

    return choose_arm(runtime, command, progress, cancelled)


def _advice(runtime: Runtime, cache_dir: str, missed: float) -> m.Decision | None:
    from ebbtide.engine.precision.advice import advice  # most engines have memory for all experts

    return advice(runtime, cache_dir, missed)


def _keep_widths(
    runtime: Runtime,
    command: m.Load,
    progress: Callable[[str, int, int], None],
    emit: Callable[[m.Event], None],
) -> "WidthKeeper":
    from ebbtide.engine.precision.keeping import keep_widths  # exact engines never do

    return keep_widths(runtime, command, progress, emit)


def _failure(request_id: int, error: Exception) -> m.Failed:
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, EbbtideError):
        needs_pack = bool(getattr(error, "needs_pack", False))
        tokens = error.question_tokens if isinstance(error, ContextError) else 0
        return m.Failed(request_id, str(error), error.hint, error.exit_code, detail, needs_pack, tokens)
    if isinstance(error, Cancelled):
        return m.Failed(request_id, "cancelled", "", 130, detail)
    if card_fault(error) == "full":
        hint = "Close other programs that use the card, give a smaller --budget, or use --device cpu."
        return m.Failed(request_id, "the card has no memory left", hint, 4, detail)
    if isinstance(error, MemoryError):
        return m.Failed(request_id, "the system has no memory left", "Give a smaller --budget.", 4, detail)
    message = f"internal error: {type(error).__name__}: {error}"
    return m.Failed(request_id, message, "Run with --debug and report the traceback.", 1, detail)
