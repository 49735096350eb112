"""What is known at load about the error of each width: from a calibration, else from the weights alone.

What had to be measured is kept beside the calibrations, so that it is measured once.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ebbtide.engine.errors import EbbtideError, FitError, ModelError
from ebbtide.engine.precision.array_file import read_arrays, write_arrays
from ebbtide.engine.precision.calibration_file import (
    AGAIN,
    Calibration,
    ModelKey,
    calibration_path,
    damage_path,
    model_key,
)
from ebbtide.engine.precision.damage import all_damage
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.moments import F32, Moments, steadied
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.runtime import Progress
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.layout import MAX_PLANES

STAGE = "Measuring the error of each width"
VERSION = 1
NO_CALIBRATION = (
    "Widths are chosen by the weights' errors alone; `ebbtide calibrate` makes better choices possible."
)


@dataclass(frozen=True)
class Known:
    """`damage` f64[layers, 2, experts, 9] per unit of routed mass; `mass` f64[layers, experts] of the
    calibration, None without one; `unit` f64[layers, 2]: what damage of each layer and kind costs the model
    (units.py), None where that was not measured; `residuals`: what a prompt changes in that, None where
    it was not learnt; `notices` for the person.
    """

    damage: F64
    mass: F64 | None
    unit: F64 | None = None
    residuals: PromptResiduals | None = None
    notices: tuple[str, ...] = ()


class _About(msgspec.Struct, frozen=True):
    """Of damage that was measured at a load."""

    version: int
    model: ModelKey
    moments_sha256: str
    """Of the moments that it was measured with; empty = of the weights alone."""


def known_damage(source: WeightSource, cache_dir: str, threads: int, progress: Progress) -> Known:
    """Read it, or measure and keep it. Raises ModelError where the model's blocks cannot be read.

    A calibration that is damaged or another model's is left out: a notice says so and what to do, and the
    weights alone decide. `progress` may raise to end the measuring.
    """
    key, folder = model_key(source), Path(cache_dir) if cache_dir else None
    calibration, notices = _calibration(source, folder, key)
    moments = steadied(calibration.moments) if calibration is not None else None
    damage = calibration.damage if calibration is not None else None
    if damage is None:
        path = damage_path(calibration_path(folder, key)) if folder is not None else None
        damage = _kept_or_measured(source, path, key, moments, threads, progress)
    mass = np.asarray(moments.mass, np.float64) if moments is not None else None
    unit = calibration.unit if calibration is not None else None
    residuals = calibration.residuals if calibration is not None else None
    return Known(np.asarray(damage, np.float64), mass, unit, residuals, notices)


def _calibration(
    source: WeightSource, folder: Path | None, key: ModelKey
) -> tuple[Calibration | None, tuple[str, ...]]:
    path = calibration_path(folder, key) if folder is not None else None
    if path is None or not path.exists():
        return None, (NO_CALIBRATION,)
    try:
        return Calibration.load(path, key, source.spec), ()
    except EbbtideError as error:
        notice = (
            f"The calibration is not used: {error}. {error.hint} Until then the weights' errors alone decide."
        )
        return None, (notice,)


def _kept_or_measured(
    source: WeightSource,
    path: Path | None,
    key: ModelKey,
    moments: Moments | None,
    threads: int,
    progress: Progress,
) -> F32:
    about = _About(VERSION, key, _digest(moments))
    kept = _kept(path, about, source)
    if kept is not None:
        return kept
    total = source.spec.layers * source.spec.experts * _expert_bytes(source)

    def report(done: int, blocks: int) -> None:
        progress(STAGE, total * done // blocks if blocks else 0, total)

    damage = all_damage(source, moments, report, threads=threads)
    if path is not None:
        with suppress(FitError):  # then it is measured again at the next load
            write_arrays(path, about, {"damage": damage})
    return damage


def _kept(path: Path | None, about: _About, source: WeightSource) -> F32 | None:
    """What an earlier load measured with the same moments."""
    if path is None or not path.exists():
        return None
    try:
        found, arrays = read_arrays(path, _About, AGAIN)
    except ModelError:
        return None  # it is measured again, and written over
    damage = arrays.get("damage")
    shape = (source.spec.layers, 2, source.spec.experts, MAX_PLANES + 1)
    same = (found.version, found.model.digest, found.moments_sha256) == (
        *(about.version, about.model.digest),
        about.moments_sha256,
    )
    if not same or damage is None or damage.shape != shape or not np.isfinite(damage).all():
        return None
    return damage.astype(np.float32)


def _digest(moments: Moments | None) -> str:
    if moments is None:
        return ""
    digest = hashlib.sha256()
    for array in (moments.gate_up, moments.down):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _expert_bytes(source: WeightSource) -> int:
    """Bytes of one expert of the first layer: for a bar."""
    return source.expert_layout(0, "gate_up").span_bytes + source.expert_layout(0, "down").span_bytes
