"""A text at two widths of the experts at once: as many planes as there are, and those of an arm.

Both runs are teacher-forced through the decode lane's kernels, each with keys and values of its own. They go
in step, some tokens at a time, and what is compared never lies around: of a piece, the full run's last rows
are kept, f32[PIECE_TOKENS, D], and scores of all words are made of them a few rows at a time.

A piece is a chunk, not single tokens: a row has the same bits in both, at all widths (`forward.py`). So an
arm that follows the routing sees a chunk's rows, and changes between chunks what it would change between two
tokens of an answer.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.at_widths import U8, committed_for_now, every_plane, hold_all, table_of, use_widths
from ebbtide.engine.errors import UsageError
from ebbtide.engine.log_probabilities import log_softmax
from ebbtide.engine.memory.kv import KvSequence
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Forward, LayerObserver
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.room import LOGIT_ROWS
from ebbtide.engine.runtime import Runtime

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

PIECE_TOKENS = 128
"""Twice as many are computed 1.1 times as fast."""
ROWS = LOGIT_ROWS // 2
"""Of each run, whose logits share one buffer."""


class Compared(NamedTuple):
    """One list entry a position that has a next token."""

    logprobs: list[float]
    top1: list[int]
    full_logprobs: list[float]
    kl: list[float]
    full_top1: list[int]


def scratch_bytes(spec: ModelSpec) -> int:
    """What it needs beside the plan's memory: rows of both runs and the embeddings of one, and four arrays
    f64[ROWS, vocabulary].
    """
    return 3 * 4 * PIECE_TOKENS * spec.d_model + 4 * 8 * ROWS * spec.vocab


class Widths(Protocol):
    """Where the arm's widths come from."""

    piece_tokens: int
    """`replan` is called after so many tokens."""
    step_tokens: int
    """At most so many are computed in one pass, at the same widths; no more than `piece_tokens`."""
    observer: LayerObserver | None
    """Sees the arm's passes."""
    widths: U8
    """u8[layers, 2, experts], for the next pass."""

    def begin(self) -> None:
        """A new text begins."""
        ...

    def ahead(self, embeddings: F32) -> None:
        """The tokens of the next pass have these embeddings f32[M, D]: all that is known before it."""
        ...

    def replan(self) -> None:
        """A piece has been computed: choose the widths of the next one."""
        ...

    @property
    def read_bits(self) -> float:
        """Planes read per expert weight on the average of this text's steps; 0 = as many as are held."""
        ...


class AsGiven:
    """The same widths throughout: see `Widths`."""

    piece_tokens = step_tokens = PIECE_TOKENS
    observer: LayerObserver | None = None
    read_bits = 0.0

    def __init__(self, widths: U8) -> None:
        self.widths = widths

    def begin(self) -> None:
        """Nothing was different before."""

    def ahead(self, embeddings: F32) -> None:
        """It makes no difference."""

    def replan(self) -> None:
        """They stay."""


def against_full(
    runtime: Runtime, command: m.Score, ids: list[int], arm: Widths, cancelled: Callable[[], bool]
) -> m.Scored:
    """Score `ids` at the widths of `arm` and with every plane. Raises what `hold_all` does, and UsageError on
    a card; what was committed is committed again afterwards.
    """
    if runtime.room.card() is not None:
        raise UsageError(
            "Widths are compared on the processor only in this version.", hint="Give --device cpu."
        )
    hold_all(runtime, len(ids), sequences=2, scratch_bytes=scratch_bytes(runtime.spec))
    full, found = every_plane(table_of(runtime)), Compared([], [], [], [], [])
    kept = np.zeros((arm.piece_tokens, runtime.spec.d_model), np.float32)
    sequences: list[KvSequence] = []
    arm.begin()
    try:
        with committed_for_now(runtime):
            sequences += [runtime.pool.new_sequence(), runtime.pool.new_sequence()]
            for start in range(0, len(ids), arm.piece_tokens):
                part = np.asarray(ids[start : start + arm.piece_tokens], np.int32)
                use_widths(runtime, full)
                kept[: part.size] = rows_of(runtime, part, start, sequences[0], cancelled)
                rows = _rows_of_arm(runtime, part, start, sequences[1], arm, cancelled)
                targets = ids[start + 1 : start + 1 + part.size]
                _compare(runtime, kept, rows, targets, found)
                arm.replan()
                runtime.check_ledger()
    finally:
        for sequence in sequences:
            runtime.pool.release(sequence)
    return m.Scored(command.request_id, ids[1:], *found, read_bits=arm.read_bits)


def _rows_of_arm(
    runtime: Runtime,
    part: NDArray[np.int32],
    start: int,
    sequence: KvSequence,
    arm: Widths,
    cancelled: Callable[[], bool],
) -> F32:
    """The last rows f32[M, D] of M tokens at `start`, pass by pass at the widths that `arm` has for each."""
    rows = np.empty((part.size, runtime.spec.d_model), np.float32)
    for at in range(0, part.size, arm.step_tokens):
        some = part[at : at + arm.step_tokens]
        arm.ahead(embeddings_of(runtime, some))
        use_widths(runtime, arm.widths)
        rows[at : at + some.size] = rows_of(runtime, some, start + at, sequence, cancelled, arm.observer)
    return rows


def embeddings_of(runtime: Runtime, ids: NDArray[np.int32]) -> F32:
    """f32[M, D]: what tokens go into the first layer as."""
    forward = runtime.forward
    assert isinstance(forward, Forward)
    rows = np.zeros((ids.size, runtime.spec.d_model), np.float32)
    forward.weights.embedding.embed(forward.ops, ids, rows)
    return rows


def rows_of(
    runtime: Runtime,
    part: NDArray[np.int32],
    start: int,
    sequence: KvSequence,
    cancelled: Callable[[], bool],
    observer: LayerObserver | None = None,
) -> F32:
    """The last rows f32[M, D] of M tokens at `start`, at the widths that are committed; a view."""
    forward = runtime.forward
    assert isinstance(forward, Forward)
    runtime.pool.extend(sequence, part.size, runtime.fast.provenance(Lane.DECODE))
    return forward.hidden(part, start, runtime.kv_view(sequence), cancelled, observer=observer)


def _compare(runtime: Runtime, full: F32, arm: F32, targets: list[int], found: Compared) -> None:
    for at in range(0, len(targets), ROWS):
        some = np.asarray(targets[at : at + ROWS])
        every = np.arange(some.size)
        expected, measured = predictions(runtime, full[at : at + some.size], arm[at : at + some.size])
        found.logprobs.extend(measured[every, some].tolist())
        found.full_logprobs.extend(expected[every, some].tolist())
        found.top1.extend(measured.argmax(axis=1).tolist())
        found.full_top1.extend(expected.argmax(axis=1).tolist())
        found.kl.extend(divergence(expected, measured).tolist())


def predictions(runtime: Runtime, full: F32, arm: F32) -> tuple[F64, F64]:
    """Natural log-probabilities of all words, f64[M, V] each, of last rows f32[M, D] of both; M <= ROWS."""
    here, there = runtime.logits[: len(full)], runtime.logits[ROWS : ROWS + len(arm)]
    runtime.forward.logits(full, here)
    runtime.forward.logits(arm, there)
    return log_softmax(here), log_softmax(there)


def divergence(expected: F64, measured: F64) -> F64:
    """KL(expected || measured) in nats, f64[M], of natural log-probabilities f64[M, V]; `measured` is
    overwritten.
    """
    np.subtract(expected, measured, out=measured)
    measured *= np.exp(expected)
    # Rounding may leave a little less than nothing where both are nearly the same.
    nats: F64 = np.maximum(measured.sum(axis=1), 0.0)
    return nats
