"""What is known at load about the error of each width: from a calibration, else from the weights alone.

What had to be measured is kept beside the calibrations, so that it is measured once.
"""

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
    Origin,
    calibration_path,
    damage_path,
    model_key,
)
from ebbtide.engine.precision.damage import all_damage
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.moments import F32, Moments, steadied
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.runtime import Progress
from ebbtide.engine.weights.book_wish import moments_sha256
from ebbtide.engine.weights.pack_index import Books
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.layout import MAX_PLANES

STAGE = "Measuring the error of each width"
VERSION = 1
NO_CALIBRATION = (
    "Widths are chosen by the weights' errors alone; `ebbtide calibrate` makes better choices possible."
)
BY_CHATS = (
    "Widths are chosen by what your chats showed so far ({tokens:,} tokens); `ebbtide calibrate` makes "
    "better choices possible."
)
BOOKS_ALONE = (
    "Widths are chosen by the weights' errors alone; `ebbtide calibrate` and then `ebbtide pack "
    "--any-precision` with the model file make better choices possible."
)
BOOKS_BEFORE = (
    "This pack was made before the model's present calibration: `ebbtide pack --any-precision` with the "
    "model file makes one that follows it."
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
    origin: Origin | None = None
    tokens: int = 0
    """Behind them."""


def known_damage(source: WeightSource, cache_dir: str, threads: int, progress: Progress) -> Known:
    """Read it, or measure and keep it. Raises ModelError where the model's blocks cannot be read.

    A calibration that is damaged or another model's is left out: a notice says so and what to do, and the
    weights alone decide. `progress` may raise to end the measuring.

    Moments from chats grow all the time, and measuring reads all experts: what was measured with them holds
    until there are twice as many tokens behind them.

    A pack with any-precision codes brings their errors along: those against the model's own weights, also
    with all planes.
    """
    key, folder = model_key(source), Path(cache_dir) if cache_dir else None
    calibration, notices = kept_calibration(source, folder, key)
    moments = steadied(calibration.moments) if calibration is not None else None
    if isinstance(source, PackSource) and source.index.books is not None:
        return _of_books(source, source.index.books, moments, calibration, notices)
    damage = calibration.damage if calibration is not None else None
    if damage is None:
        path = damage_path(calibration_path(folder, key)) if folder is not None else None
        about = _About(VERSION, key, moments_sha256(moments))
        if calibration is not None:
            origin, tokens = calibration.origin, calibration.moments.tokens
            about = _About(VERSION, key, about.moments_sha256, origin, tokens)
        damage = _kept_or_measured(source, path, about, moments, threads, progress)
    mass = np.asarray(moments.mass, np.float64) if moments is not None else None
    unit = calibration.unit if calibration is not None else None
    residuals = calibration.residuals if calibration is not None else None
    return Known(np.asarray(damage, np.float64), mass, unit, residuals, notices)


def kept_calibration(
    source: WeightSource, folder: Path | None, key: ModelKey
) -> tuple[Calibration | None, tuple[str, ...]]:
    """The calibration of a model, and notices why there is none, or only one from chats."""
    path = calibration_path(folder, key) if folder is not None else None
    if path is None or not path.exists():
        return None, (NO_CALIBRATION,)
    try:
        calibration = Calibration.load(path, key, source.spec)
        if calibration.origin == "chats":
            return calibration, (BY_CHATS.format(tokens=calibration.moments.tokens),)
        return calibration, ()
    except EbbtideError as error:
        notice = (
            f"The calibration is not used: {error}. {error.hint} Until then the weights' errors alone decide."
        )
        return None, (notice,)


def _of_books(
    source: PackSource,
    books: Books,
    moments: Moments | None,
    calibration: Calibration | None,
    notices: tuple[str, ...],
) -> Known:
    """Of a pack with any-precision codes. Units and residuals go with errors that the same moments weigh.
    Of chats, which say nothing of codes, there is the mass.
    """
    damage = source.book_errors().astype(np.float64)
    mass = np.asarray(moments.mass, np.float64) if moments is not None else None
    if moments is None or calibration is None or calibration.origin == "chats":
        if notices == (NO_CALIBRATION,) or calibration is not None:
            notices = () if books.moments_sha256 else (BOOKS_ALONE,)
        return Known(damage, mass, notices=notices)
    if books.moments_sha256 != moments_sha256(moments):
        return Known(damage, mass, notices=(BOOKS_BEFORE,))
    return Known(damage, mass, calibration.unit, calibration.residuals)


def _kept_or_measured(
    source: WeightSource,
    path: Path | None,
    about: _About,
    moments: Moments | None,
    threads: int,
    progress: Progress,
) -> F32:
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
    """What an earlier load measured with the same moments, or with half of those from chats."""
    if path is None or not path.exists():
        return None
    try:
        found, arrays = read_arrays(path, _About, AGAIN)
    except ModelError:
        return None  # it is measured again, and written over
    damage = arrays.get("damage")
    shape = (source.spec.layers, 2, source.spec.experts, MAX_PLANES + 1)
    same = (found.version, found.model.digest) == (about.version, about.model.digest)
    if (
        not same
        or not _holds(found, about)
        or damage is None
        or damage.shape != shape
        or not np.isfinite(damage).all()
    ):
        return None
    return damage.astype(np.float32)


def _holds(found: _About, wanted: _About) -> bool:
    if found.origin == wanted.origin == "chats":
        return wanted.tokens < 2 * found.tokens
    return found.moments_sha256 == wanted.moments_sha256


def _expert_bytes(source: WeightSource) -> int:
    """Bytes of one expert of the first layer: for a bar."""
    return source.expert_layout(0, "gate_up").span_bytes + source.expert_layout(0, "down").span_bytes
