"""Teacher-forced log-probabilities of a text, through either lane."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import AsGiven, against_full
from ebbtide.engine.at_widths import committed_for_now, hold_all, parse_widths, table_of, use_widths
from ebbtide.engine.errors import UsageError
from ebbtide.engine.log_probabilities import log_softmax
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.prefill_chunks import chunk_end
from ebbtide.engine.room import LOGIT_ROWS
from ebbtide.engine.runtime import Runtime

F32 = NDArray[np.float32]


def teacher_forced(
    runtime: Runtime,
    ids: list[int],
    lane: Lane,
    cancelled: Callable[[], bool],
    use: Callable[[int, F32], None],
) -> None:
    """Run `ids` from an empty cache; `use(position, logits f32[n, vocabulary])` gets each row, in order.

    The prefill lane goes in chunks, the decode lane token by token, as generation would. The logits are a
    view that the next call overwrites.
    """
    sequence = runtime.pool.new_sequence()
    most = runtime.chunk_tokens if lane is Lane.PREFILL else 1
    start = 0
    try:
        while start < len(ids):
            part = np.asarray(ids[start : chunk_end(start, len(ids), most)], np.int32)
            runtime.pool.extend(sequence, part.size, runtime.fast.provenance(lane))
            rows = runtime.forward.hidden(part, start, runtime.kv_view(sequence), cancelled)
            for at in range(0, part.size, LOGIT_ROWS):
                some = rows[at : at + LOGIT_ROWS]
                runtime.forward.logits(some, runtime.logits[: some.shape[0]])
                use(start + at, runtime.logits[: some.shape[0]])
            start += part.size
            runtime.check_ledger()
    finally:
        runtime.pool.release(sequence)


def score(runtime: Runtime, command: m.Score, cancelled: Callable[[], bool]) -> m.Scored:
    """Answer a `Score`: the first id of the text has no prediction and is left out."""
    ids = runtime.tokenizer.encode(command.text, add_bos=True, parse_special=False)
    ids = ids[: min(command.max_tokens or runtime.ctx, runtime.ctx)]
    if len(ids) < 2:
        raise UsageError("the text is too short to be scored", hint="Give at least two tokens of text.")
    if not (command.widths or command.against_full or command.follow):
        return _alone(runtime, command, ids, cancelled)
    table = table_of(runtime)
    if command.follow:
        if runtime.paged_arm is None:
            raise UsageError("No arm has been chosen that follows the routing.", hint="Ask for it first.")
        return against_full(runtime, command, ids, runtime.paged_arm, cancelled)
    widths = parse_widths(table, command.widths) if command.widths else table.committed.copy()
    if command.against_full:
        return against_full(runtime, command, ids, AsGiven(widths), cancelled)
    hold_all(runtime, len(ids))
    with committed_for_now(runtime):
        use_widths(runtime, widths)
        return _alone(runtime, command, ids, cancelled)


def _alone(runtime: Runtime, command: m.Score, ids: list[int], cancelled: Callable[[], bool]) -> m.Scored:
    """With the widths that are committed."""
    logprobs: list[float] = []
    top1: list[int] = []

    def use(position: int, logits: F32) -> None:
        known = min(position + logits.shape[0], len(ids) - 1) - position
        if known > 0:
            rows = log_softmax(logits[:known])
            targets = np.asarray(ids[position + 1 : position + 1 + known])
            logprobs.extend(rows[np.arange(known), targets].tolist())
            top1.extend(logits[:known].argmax(axis=1).tolist())

    lane = Lane.PREFILL if command.lane == "prefill" else Lane.DECODE
    teacher_forced(runtime, ids, lane, cancelled, use)
    return m.Scored(command.request_id, ids[1:], logprobs, top1)
