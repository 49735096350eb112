"""A loaded model: every part that a request needs, built in the order that keeps the memory peak low."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.decisions import budget_resolved
from ebbtide.engine.device.emulate import parse_emulation
from ebbtide.engine.device.faults import card_fault
from ebbtide.engine.device.place import Place, emulated, find_place
from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.fast_memory import ExpertBank, FastMemory, open_memory
from ebbtide.engine.memory.kv import KvPool, KvSequence
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.plan import MemoryPlan
from ebbtide.engine.memory.prefix_cache import PrefixCache
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.model.forward import Pass
from ebbtide.engine.model.layer import KvView
from ebbtide.engine.model.open import OpenModel, PackNeeded, open_model
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import load_dense
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.room import LOGIT_ROWS, HostRoom, Room
from ebbtide.engine.text import AnswerMemory, ChatTemplate, Tokenizer, read_vocabulary
from ebbtide.engine.threads import default_threads, usable_threads
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.dispatch import pick
from ebbtide.kernels.ops import KvLayout, Ops

if TYPE_CHECKING:
    from ebbtide.engine.against_full import Widths
    from ebbtide.engine.precision.learning import Learner

MOST_THREADS_PER_CPU = 2

F32 = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


@dataclass
class Runtime:
    """Made by `load`; used by the step thread alone. `logits` f32[LOGIT_ROWS, vocabulary] is scratch."""

    name: str
    spec: ModelSpec
    plan: MemoryPlan
    room: Room
    forward: Pass
    fast: FastMemory
    kv: KvLayout
    tokenizer: Tokenizer
    answers: AnswerMemory
    template: ChatTemplate
    logits: F32
    source: WeightSource
    notices: tuple[str, ...]
    load_s: float
    chunk_tokens: int
    """The most tokens of a prefill chunk (prefill_chunks.py)."""
    pack_below_bytes: int = 0
    """See `OpenModel.pack_below_bytes`."""
    pack_s: float = 0.0
    """See `OpenModel.pack_s`."""
    quality: str = "exact"
    """See `Load.quality`."""
    paged_arm: "Widths | None" = None
    """Chosen by the last `Arm`, for the scores that follow: `paged`, or `dp`."""
    learner: "Learner | None" = None
    """Sees prompts, where moments are gathered from chats."""

    @classmethod
    def load(cls, command: m.Load, progress: Progress) -> "Runtime":
        """Open the model and read its dense weights. Raises EbbtideError; nothing is left behind then.

        With `--device auto` a card that has too little room is passed over, and a notice says so.
        """
        began = time.perf_counter()
        _refuse_what_is_missing(command)
        emulation = parse_emulation(command.emulate)
        try:
            place, notice = find_place(command.device)
            if place is not None:
                room = _card_room(emulated(place, emulation))
                return cls._load_into(room, command, progress, began)
        except PackNeeded:
            raise
        except Exception as error:
            notice = _without_card(command.device, error)
        _refuse_to_emulate(command.emulate, notice)
        ops, threads_notice = _pick_ops(command)
        host = HostRoom(ops, *filter(None, (threads_notice, notice)))
        return cls._load_into(host, command, progress, began)

    @classmethod
    def _load_into(cls, room: Room, command: m.Load, progress: Progress, began: float) -> "Runtime":
        with ExitStack() as undo:
            undo.callback(room.close)
            model = open_model(command, room, progress)
            undo.callback(model.source.close)
            runtime = _build(command, room, model, progress, began, undo)
            room.prepare(runtime.rehearse, progress)
            undo.pop_all()
        return runtime

    @property
    def ctx(self) -> int:
        return self.plan.ctx

    @property
    def pool(self) -> KvPool:
        return self.fast.pool

    @property
    def prefixes(self) -> PrefixCache:
        return self.fast.prefixes

    @property
    def pager(self) -> Pager | None:
        return self.fast.pager

    @cached_property
    def costs(self) -> Costs:
        """Of a model that has experts."""
        assert self.fast.table is not None
        return Costs.of(self.fast.table.layouts, self.fast.table.experts)

    @property
    def wants_exact_keys(self) -> bool:
        """Whether a request may reuse only keys that every plane was used for."""
        return self.quality == "exact" and self.fast.is_exact

    def forget(self) -> None:
        """Drop all that earlier requests left behind for later ones."""
        self.prefixes.clear()
        self.answers.clear()

    def kv_view(self, sequence: KvSequence) -> KvView:
        return KvView(sequence.table, self.kv, self.fast.arena.pages)

    def rehearse(self, rows: int) -> None:
        """Run a made-up prompt of so many tokens and one token after it, and forget both."""
        sequence = self.pool.new_sequence()
        try:
            for count, lane in ((min(rows, self.ctx - 1), Lane.PREFILL), (1, Lane.DECODE)):
                start = sequence.length
                self.pool.extend(sequence, count, self.fast.provenance(lane))
                ids, view = np.zeros(count, np.int32), self.kv_view(sequence)
                hidden = self.forward.hidden(ids, start, view, lambda: False)
                self.forward.logits(hidden[-1:], self.logits[:1])
        finally:
            self.pool.release(sequence)
        if self.pager is not None:
            self.pager.reset_counters()

    def check_ledger(self) -> None:
        """For safe points. Raises LedgerError."""
        self.fast.ledger.check()

    def memory(self) -> m.Memory:
        return self.fast.ledger.memory(self.room.peak_bytes())

    def loaded(self) -> m.Loaded:
        return m.Loaded(
            name=self.name,
            architecture=self.spec.architecture,
            ctx=self.ctx,
            vocabulary=self.tokenizer.vocab_size,
            layers=self.spec.layers,
            experts=self.spec.experts,
            isa=self.room.isa,
            threads=self.room.threads,
            load_s=self.load_s,
            memory=self.memory(),
            notices=list(self.notices),
            opens_thinking=self.template.opens_thinking,
            model_ctx=self.spec.context,
            smallest_budget_bytes=self.plan.smallest_budget_bytes,
            base_bytes=self.plan.base_bytes,
            expert_bytes=self.plan.expert_bytes,
            page_bytes=self.plan.page_bytes,
            ample_bytes=self.plan.ample_bytes,
            most_budget_bytes=self.room.whole_bytes(),
            pack_below_bytes=self.pack_below_bytes,
            pack_s=self.pack_s,
            pack_bytes=self.source.file.size_bytes if self.pack_below_bytes else 0,
            width=self.fast.width,
            planes=self.fast.planes,
        )

    def budget_decision(self, wish: str) -> m.Decision:
        """What `wish` (as in --budget) came to."""
        plan = self.plan
        return budget_resolved(
            wish,
            budget=plan.budget_bytes,
            fixed=plan.static_bytes + plan.transient_bytes,
            room=plan.total_pages * plan.page_bytes,
            experts=self.spec.layers * self.spec.experts,
            held=sum(self.pager.quotas) if self.pager is not None else 0,
        )

    def close(self) -> None:
        """End reader threads and close the file. The memory goes with the last reference."""
        if self.learner is not None:
            self.learner.close()
        self.fast.close()
        self.source.close()
        self.room.close()


def _pick_ops(command: m.Load) -> tuple[Ops, str]:
    """The operations, and what a person should know about their threads.

    Threads far beyond the processors only wait for each other, in every product: they are not made.
    """
    isa = cast(Literal["auto"], command.isa)
    try:
        threads = min(command.threads, MOST_THREADS_PER_CPU * usable_threads())
        cache = Path(command.cache_dir) if command.cache_dir else None
        threads = threads or default_threads(isa, cache)
        ops = pick(isa, threads)
    except ValueError as error:
        raise UsageError(
            str(error), hint="Use --isa auto, or one of those that `ebbtide doctor` lists."
        ) from error
    return ops, _thread_notice(command.threads, threads, ops.threads)


def _thread_notice(asked: int, wanted: int, started: int) -> str:
    if started < wanted:
        return (
            f"Only {started} of {wanted} threads could be started, which makes it slower: a limit on "
            "processes or memory (`ulimit -u`, a container's) allows no more."
        )
    if asked > wanted:
        return f"--threads {asked} is far more than this machine has: {wanted} are used"
    return ""


def _refuse_what_is_missing(command: m.Load) -> None:
    """Options whose parts are not built yet: refused by name, never ignored."""
    if command.kv != "bf16":
        raise UsageError(f"--kv {command.kv} is not available in this version", hint="Use --kv bf16.")


def _refuse_quality(command: m.Load, room: Room, experts: int) -> None:
    """Raise UsageError where widths cannot change."""
    if command.quality == "exact":
        return
    what = f"--quality {command.quality}"
    if command.quality not in QUALITIES:
        names = ", ".join(["exact", *QUALITIES])
        raise UsageError(f"{what} is not known.", hint=f"Give one of {names}.")
    if experts == 0:
        raise UsageError(
            f"{what} lowers the precision of experts, and this model has none.", hint="Leave it out."
        )
    if room.card() is not None:
        raise UsageError(
            f"{what} works on the processor only in this version.", hint="Leave it out, or give --device cpu."
        )
    if command.width:
        raise UsageError(
            f"{what} changes widths, and --width {command.width} fixes them.", hint="Give one of the two."
        )


def _refuse_to_emulate(wish: str, notice: str) -> None:
    if wish:
        why = f" ({notice.rstrip('.')})" if notice else ""
        raise UsageError(f"--emulate {wish} is for cards, and none is used{why}.", hint="Leave it out.")


def _without_card(wish: str, error: Exception) -> str:
    """What is said of a card that a model could not be put on. Raises it where no other place will do."""
    fault = card_fault(error)
    if not isinstance(error, FitError) and not fault:
        raise error
    if wish == "auto":
        return f"No card is used: {error}"
    if isinstance(error, FitError):
        raise error
    what = "has no memory left" if fault == "full" else "does not work any more"
    raise FitError(f"{wish} {what}: {error}", hint="Use --device cpu.") from error


def _card_room(place: Place) -> Room:
    from ebbtide.engine.card_room import CardRoom  # imports torch

    return CardRoom(place)


def _build(
    command: m.Load, room: Room, model: OpenModel, progress: Progress, began: float, undo: ExitStack
) -> Runtime:
    """`undo` is told what has to be closed if a later part fails."""
    spec, source, plan = model.spec, model.source, model.plan
    _refuse_quality(command, room, spec.experts)
    if command.prefetch and room.card() is not None:
        raise UsageError(
            "--prefetch works on the processor only in this version.",
            hint="Leave it away, or give --device cpu.",
        )
    vocabulary = read_vocabulary(source.file)
    tokenizer = Tokenizer.from_gguf(source.file, vocabulary)
    template = ChatTemplate.from_gguf(source.file, vocabulary)
    kv = KvLayout(spec.kv_heads, spec.head_dim, model.page.tokens)
    fast = open_memory(
        plan,
        kv,
        layers=spec.layers,
        bank=_bank(spec, source, model.width),
        policy=command.policy,
        prefetch=command.prefetch,
        retain_prefixes=command.retain_prefixes,
        slabs=room.slabs,
        mover=lambda: room.mover(source, model.width),
    )
    undo.callback(fast.close)
    total = source.static_bytes
    weights = load_dense(
        spec,
        source,
        lambda done: progress("Loading", done, total),
        room.home,
        rows_on_disk=plan.rows_on_disk,
    )
    forward = room.forward(spec, weights, fast.pager, kv, plan.ctx, model.chunk_tokens)
    return Runtime(
        name=spec.name or Path(command.path).stem,
        spec=spec,
        plan=plan,
        room=room,
        forward=forward,
        fast=fast,
        kv=kv,
        tokenizer=tokenizer,
        answers=AnswerMemory(tokenizer),
        template=template,
        logits=np.zeros((LOGIT_ROWS, spec.vocab), np.float32),
        source=source,
        notices=(
            *room.notices,
            *model.notices,
            *source.notices,
            *tokenizer.notices,
            *template.notices,
        ),
        load_s=time.perf_counter() - began,
        chunk_tokens=model.chunk_tokens,
        pack_below_bytes=model.pack_below_bytes,
        pack_s=model.pack_s,
        quality=command.quality,
    )


def _bank(spec: ModelSpec, source: WeightSource, width: int) -> ExpertBank | None:
    if spec.experts == 0:
        return None
    layouts = [
        LayerLayouts(source.expert_layout(layer, "gate_up"), source.expert_layout(layer, "down"))
        for layer in range(spec.layers)
    ]
    return ExpertBank(layouts, spec.experts, source, width)
