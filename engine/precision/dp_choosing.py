"""The arm `dp` for a loaded model: which widths it has, and thresholds from text that it may see."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import embeddings_of, rows_of, scratch_bytes
from ebbtide.engine.at_widths import committed_for_now, every_plane, hold_all, table_of, use_widths
from ebbtide.engine.errors import UsageError
from ebbtide.engine.precision.arms import Pairs, dp_pairs
from ebbtide.engine.precision.choosing import TEXT_TOKENS, cancellable
from ebbtide.engine.precision.costs import F64, Costs
from ebbtide.engine.precision.dp_arm import DpArm, EstimateFit, Seen, Watcher, features, gains, remaining
from ebbtide.engine.precision.known_damage import Known, known_damage
from ebbtide.engine.precision.library_text import library_texts
from ebbtide.engine.precision.passages import passages
from ebbtide.engine.runtime import Progress, Runtime

F32 = NDArray[np.float32]

FIT_TOKENS, PASSAGE_TOKENS = 1024, 128
"""Of Python's documentation and sources, never of the part that is held out."""
STAGE = "Fitting thresholds"


def choose_dp(
    runtime: Runtime, command: m.Arm, progress: Progress, cancelled: Callable[[], bool]
) -> m.ArmWidths:
    """Answer an `Arm` "dp", and bring all planes into memory. Raises as `choosing.choose`."""
    runtime.paged_arm = None
    table = table_of(runtime)
    costs = Costs.of(table.layouts, table.experts)
    costs.target_bytes(command.bits)
    tokens, scratch = min(runtime.ctx, TEXT_TOKENS), scratch_bytes(runtime.spec)
    hold_all(runtime, tokens, sequences=2, scratch_bytes=scratch, progress=progress)
    report = cancellable(progress, cancelled)
    found = known_damage(runtime.source, command.cache_dir, runtime.room.threads, report)
    pairs, gain, fit = _fitted(_text_seen(runtime, progress, cancelled), found, costs, command.bits)
    held = pairs.held(costs)
    runtime.paged_arm = DpArm(costs, pairs, gain, fit)
    average, size = pairs.read_bits(costs), costs.expert_bytes(held)
    return m.ArmWidths(
        command.request_id,
        widths=held.tobytes(),
        average_bits=average,
        expert_bytes=size,
        full_bytes=costs.expert_bytes(costs.full()),
        fp16_bytes=costs.bytes_in_16_bits,
        notices=[*found.notices, fit.sentence()],
        follows=True,
    )


class _Text(NamedTuple):
    """Tokens of one passage: embeddings f32[n, D], and what their errors follow from."""

    embeddings: F32
    seen: Seen


def _fitted(
    texts: Sequence[_Text], known: Known, costs: Costs, bits: float
) -> tuple[Pairs, F64, EstimateFit]:
    """Widths and thresholds. How well errors can be guessed, which the widths depend on, is told at the
    widths next to `bits`.
    """
    mass = np.ones(costs.shape[::2]) if known.mass is None else known.mass
    low = np.clip(int(bits), 1, np.maximum(costs.planes.astype(np.int64) - 1, 1)).astype(np.uint8)
    near = Pairs(low, np.minimum(low + 1, costs.planes).astype(np.uint8), np.full(low.shape, 0.5))
    found = remaining(*_rows(texts, gains(known.damage, near, costs, known.unit)), len(low))
    pairs = dp_pairs(known.damage, mass, costs, bits, known.unit, found)
    gain = gains(known.damage, pairs, costs, known.unit)
    return pairs, gain, EstimateFit.of(*_rows(texts, gain), pairs.share)


def _rows(texts: Sequence[_Text], gain: F64) -> tuple[F64, F64]:
    """Features and log errors of all tokens but the first of each text, which has none before it."""
    parts = []
    for text in texts:
        logs = text.seen.log_errors(gain)
        parts.append((features(text.embeddings[1:], logs[:-1]), logs[1:]))
    before, errors = (np.concatenate(part) for part in zip(*parts, strict=True))
    return before, errors


def _text_seen(runtime: Runtime, progress: Progress, cancelled: Callable[[], bool]) -> list[_Text]:
    """Of the text that thresholds are fitted to, computed with every plane."""
    texts, found = _texts(runtime), []
    with committed_for_now(runtime):
        use_widths(runtime, every_plane(table_of(runtime)))
        for done, ids in enumerate(texts):
            progress(STAGE, done, len(texts))
            found.append(_Text(embeddings_of(runtime, ids), _seen(runtime, ids, cancelled)))
    progress(STAGE, len(texts), len(texts))
    return found


def _seen(runtime: Runtime, ids: NDArray[np.int32], cancelled: Callable[[], bool]) -> Seen:
    """From an empty cache."""
    watcher, sequence = Watcher(runtime.spec.layers), runtime.pool.new_sequence()
    try:
        rows_of(runtime, ids, 0, sequence, cancelled, watcher)
    finally:
        runtime.pool.release(sequence)
    assert watcher.seen is not None
    return watcher.seen


def _texts(runtime: Runtime) -> list[NDArray[np.int32]]:
    """Passages of two tokens or more. Raises UsageError where this Python came without its library's text."""
    encode = partial(runtime.tokenizer.encode, add_bos=False, parse_special=False)
    front = runtime.tokenizer.encode("", add_bos=True, parse_special=False)
    length = min(PASSAGE_TOKENS, runtime.ctx)
    found = passages(library_texts(held_out=False), encode, front, length, FIT_TOKENS)
    texts = [np.asarray(ids, np.int32) for ids in found if len(ids) > 1]
    if not texts:
        raise UsageError(
            "--arm dp fits thresholds to text of Python's standard library, and this Python came without it.",
            hint="Take another arm, or a Python with its library's sources.",
        )
    return texts
