"""The arm `dp` for a loaded model: which widths its layers have, and thresholds from text that it may see."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import embeddings_of, rows_of, scratch_bytes
from ebbtide.engine.at_widths import committed_for_now, hold_all, table_of, use_widths
from ebbtide.engine.errors import UsageError
from ebbtide.engine.precision.arms import dp_pairs
from ebbtide.engine.precision.choosing import TEXT_TOKENS, known
from ebbtide.engine.precision.costs import F64, Costs
from ebbtide.engine.precision.dp_arm import DpArm, Errors, EstimateFit, features, gains
from ebbtide.engine.precision.library_text import library_texts
from ebbtide.engine.precision.passages import passages
from ebbtide.engine.runtime import Progress, Runtime

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
    found = known(runtime.source, command.cache_dir, progress, cancelled)
    mass = np.ones(costs.shape[::2]) if found.mass is None else found.mass
    pairs = dp_pairs(found.damage, mass, costs, command.bits, found.unit)
    gain, held = gains(found.damage, pairs, costs, found.unit), pairs.held(costs)
    with committed_for_now(runtime):
        use_widths(runtime, held)
        fit = _fitted(runtime, gain, pairs.share, progress, cancelled)
    runtime.paged_arm = DpArm(costs, pairs, gain, fit)
    average, size = pairs.read_bits(costs), costs.expert_bytes(held)
    notices = [found.notice, fit.sentence()]
    return m.ArmWidths(
        command.request_id,
        widths=held.tobytes(),
        average_bits=average,
        expert_bytes=size,
        full_bytes=costs.expert_bytes(costs.full()),
        fp16_bytes=costs.bytes_in_16_bits,
        notices=[notice for notice in notices if notice],
        follows=True,
    )


def _fitted(
    runtime: Runtime, gain: F64, share: F64, progress: Progress, cancelled: Callable[[], bool]
) -> EstimateFit:
    """With the widths that are committed."""
    seen, errors = [], []
    texts = _texts(runtime)
    for done, ids in enumerate(texts):
        progress(STAGE, done, len(texts))
        logs = _errors_of(runtime, ids, gain, cancelled)
        # The first token has none before it.
        seen.append(features(embeddings_of(runtime, ids)[1:], logs[:-1]))
        errors.append(logs[1:])
    progress(STAGE, len(texts), len(texts))
    return EstimateFit.of(np.concatenate(seen), np.concatenate(errors), share)


def _errors_of(runtime: Runtime, ids: NDArray[np.int32], gain: F64, cancelled: Callable[[], bool]) -> F64:
    """log(error) f64[M, layers] of M tokens from an empty cache."""
    observer, sequence = Errors(gain), runtime.pool.new_sequence()
    try:
        rows_of(runtime, ids, 0, sequence, cancelled, observer)
    finally:
        runtime.pool.release(sequence)
    return observer.logs


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
