"""Calibration of a loaded model: a text through it at full width, and what is gathered on the way.

Forward passes only. Sums are added up chunk by chunk in an order that follows from the text alone, and the
bits of a row depend neither on the budget nor on threads: so the moments do not either.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ebbtide.engine import messages as m
from ebbtide.engine.at_widths import every_plane, table_of
from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Cancelled, Forward
from ebbtide.engine.precision.array_file import alone
from ebbtide.engine.precision.calibration_file import (
    Calibration,
    Origin,
    Part,
    calibration_path,
    model_key,
)
from ebbtide.engine.precision.damage import all_damage
from ebbtide.engine.precision.gathering import Both, Gatherer
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.imatrix import read_imatrix
from ebbtide.engine.precision.known_damage import STAGE as MEASURING
from ebbtide.engine.precision.library_text import library_texts
from ebbtide.engine.precision.moments import F32, Moments, Sums, steadied
from ebbtide.engine.precision.passages import digest, passages, read_text
from ebbtide.engine.precision.prompt_errors import PromptErrors, lower_widths
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.precision.routing_mass import blended
from ebbtide.engine.precision.units import measure_units, predicted_damage
from ebbtide.engine.room import CHUNK_TOKENS
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.weights.pack_source import PackSource

Progress = Callable[[str, int, int], None]

STAGE = "Calibrating"
DEFAULT_TOKENS = 51_200
"""As many as Any-Precision LLM takes: 100 passages of 512."""
PASSAGE_TOKENS = 512
"""Every budget has KV for so many."""
CHECKPOINT_PASSAGES = 8
"""An interruption loses at most so many."""


def calibrate(
    runtime: Runtime, command: m.Calibrate, progress: Progress, cancelled: Callable[[], bool]
) -> m.Calibrated:
    """Answer a `Calibrate`. Raises UsageError for the text and for models that cannot be calibrated,
    ModelError for an imatrix or a begun calibration that cannot be used, FitError where nothing can be
    written, Cancelled.
    """
    if not runtime.spec.experts:
        raise UsageError(f"{runtime.name} has no experts to calibrate", hint="Use it as it is.")
    if isinstance(runtime.source, PackSource) and runtime.source.index.books is not None:
        raise UsageError(
            f"{runtime.source.file.path.name} has any-precision codes: these follow from a calibration",
            hint=f"Calibrate the model file {runtime.source.index.source.name}, then pack it again.",
        )
    key = model_key(runtime.source)
    path = calibration_path(Path(command.cache_dir), key)
    part_path = Part.path(path)
    begun = None
    if command.imatrix_path:
        moments = read_imatrix(Path(command.imatrix_path), runtime.spec, key.name)
    else:
        begun = _begin(runtime, command, part_path)
        moments = _Run(runtime, begun, part_path, progress, cancelled).moments()
    damage = all_damage(runtime.source, steadied(moments), partial(_report_damage, progress, cancelled))
    unit, residuals = None, None
    if begun is not None:
        unit = measure_units(runtime, damage, moments.mass, begun.passages, progress, cancelled)
        residuals = _residuals(runtime, begun.part, moments, damage, unit)
    origin: Origin = "imatrix" if command.imatrix_path else "text"
    with alone(path.parent):  # else a chat that adds to what it has read there could undo this
        Calibration(key, moments, damage, unit, residuals, origin).save(path)
    part_path.unlink(missing_ok=True)
    return m.Calibrated(
        command.request_id,
        str(path),
        path.stat().st_size,
        moments.tokens,
        moments.unused,
        has_damage=True,
        has_unit=unit is not None,
        residuals=_said(begun, residuals),
    )


def _residuals(
    runtime: Runtime, part: Part, moments: Moments, damage: F32, unit: F64 | None
) -> PromptResiduals | None:
    """What each layer erred in each passage, over what damage and the passage's routes let expect."""
    masses, errors = np.stack(part.masses), np.stack(part.errors)
    probe = lower_widths(every_plane(table_of(runtime)))
    weights = 1.0 if unit is None else unit
    expected = np.stack([(predicted_damage(damage, mass, probe) * weights).sum(axis=1) for mass in masses])
    known = (expected > 0) & (errors > 0)
    ratio = np.divide(errors, expected, out=np.ones(errors.shape), where=known)
    seen = blended(masses, PASSAGE_TOKENS, moments.mass)
    return PromptResiduals.fit(seen, ratio)


def _said(begun: "_Begun | None", residuals: PromptResiduals | None) -> str:
    if begun is None:
        return ""
    if residuals is None:
        return "Prompt residuals are off: the text is too short to learn them from."
    return residuals.heads.sentence()


def _report_damage(progress: Progress, cancelled: Callable[[], bool], done: int, total: int) -> None:
    progress(MEASURING, done, total)
    if cancelled():
        raise Cancelled


class _Begun:
    """Passages of a text, and the sums over the first of them."""

    def __init__(self, found: Sequence[Sequence[int]], part: Part) -> None:
        self.passages, self.part = found, part


def _begin(runtime: Runtime, command: m.Calibrate, part_path: Path) -> _Begun:
    found = _passages(runtime, command)
    key, sha = model_key(runtime.source), digest(found)
    if not command.resume or not part_path.exists():
        part = Part(key, sha, 0, Sums(runtime.spec), [], [])
        part.save(part_path)  # where nothing can be written, that is told now and not after the first hour
        return _Begun(found, part)
    part = Part.load(part_path, key, runtime.spec)
    if part.text_sha256 != sha:
        raise UsageError(
            f"The calibration of {key.name} that was begun is of another text or length",
            hint="Give the same --text and --tokens again, or leave out --resume: then it begins anew.",
        )
    return _Begun(found, part)


def _passages(runtime: Runtime, command: m.Calibrate) -> list[list[int]]:
    kinds: Sequence[Sequence[str]]
    if command.text_path:
        kinds, what = [[read_text(Path(command.text_path))]], command.text_path
        hint = "Give a file with some text in it."
    else:
        kinds, what = library_texts(held_out=False), "Python's standard library"
        hint = "This Python came without it: give a text of your own with --text FILE."
    encode = partial(runtime.tokenizer.encode, add_bos=False, parse_special=False)
    front = runtime.tokenizer.encode("", add_bos=True, parse_special=False)
    length = min(PASSAGE_TOKENS, runtime.spec.context)
    found = passages(kinds, encode, front, length, command.max_tokens or DEFAULT_TOKENS)
    if not found:
        raise UsageError(f"There is no text in {what}", hint=hint)
    return found


class _Run:
    """Takes passages through the model, from where they were left on."""

    def __init__(
        self,
        runtime: Runtime,
        begun: _Begun,
        part_path: Path,
        progress: Progress,
        cancelled: Callable[[], bool],
    ) -> None:
        if not isinstance(runtime.forward, Forward):
            raise UsageError("A model on a card cannot be calibrated", hint="Use --device cpu.")
        self._runtime, self._forward = runtime, runtime.forward
        self._begun, self._part_path = begun, part_path
        self._progress, self._cancelled = progress, cancelled
        self._sums = begun.part.sums
        self._gatherer = Gatherer(runtime.spec, self._sums, CHUNK_TOKENS)
        self._errors = PromptErrors(runtime.spec)
        self._observer = Both(self._gatherer, self._errors)

    def moments(self) -> Moments:
        """Of all passages, with a checkpoint now and then and after the last."""
        found, part = self._begun.passages, self._begun.part
        total = sum(map(len, found))
        self._progress(STAGE, self._sums.tokens, total)
        for done, ids in enumerate(found[part.done :], part.done + 1):
            self._passage(ids)
            part.errors.append(self._errors.errors)
            part.masses.append(self._errors.mass)
            self._progress(STAGE, self._sums.tokens, total)
            if done % CHECKPOINT_PASSAGES == 0 or done == len(found):
                replace(part, done=done).save(self._part_path)
        return self._sums.moments()

    def _passage(self, ids: Sequence[int]) -> None:
        """From an empty cache, in chunks of a fixed length: where they end decides the order of additions."""
        runtime = self._runtime
        sequence = runtime.pool.new_sequence()
        self._errors.begin()
        try:
            for start in range(0, len(ids), CHUNK_TOKENS):
                part = np.asarray(ids[start : start + CHUNK_TOKENS], np.int32)
                runtime.pool.extend(sequence, part.size, runtime.fast.provenance(Lane.PREFILL))
                view = runtime.kv_view(sequence)
                self._forward.hidden(part, start, view, self._cancelled, observer=self._observer)
                runtime.check_ledger()
        finally:
            runtime.pool.release(sequence)
