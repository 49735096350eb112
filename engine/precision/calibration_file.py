"""What is kept of a model's calibration, and the part of one that is not finished."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf.faults import shown
from ebbtide.engine.gguf.file import GgufFile
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.array_file import Arrays, read_arrays, read_record, write_arrays
from ebbtide.engine.precision.moments import F32, F64, Moments, Sums, merged
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.weights.pack_index import SourceIdentity, identify
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.layout import MAX_PLANES

VERSION = 2
PART_VERSION = 2
AGAIN = "Make it again: `ebbtide calibrate MODEL`."
AFRESH = "Leave out --resume: then it begins anew."
HEADS = "heads."
_MOMENTS = "gate_up", "down"
Origin = Literal["text", "imatrix", "chats"]


class ModelKey(msgspec.Struct, frozen=True):
    """Which model a calibration belongs to, wherever its file lies and whether or not it has a pack."""

    name: str
    """Of the file that was calibrated: for people, another name is still the same model."""
    size_bytes: int
    header_sha256: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.size_bytes}:{self.header_sha256}".encode()).hexdigest()[:24]


def model_key(source: WeightSource) -> ModelKey:
    """The key of an open model. Raises ModelError where its file cannot be read."""
    return _key(source.index.source) if isinstance(source, PackSource) else key_of(source.file)


def key_of(file: GgufFile) -> ModelKey:
    """The key of a model's own file (not of a pack). Raises ModelError where it cannot be read."""
    return _key(identify(file))


def _key(found: SourceIdentity) -> ModelKey:
    return ModelKey(found.name, found.size_bytes, found.header_sha256)


def calibration_path(cache_dir: Path, model: ModelKey) -> Path:
    """Where the calibration of a model is kept."""
    return cache_dir / "calibration" / f"{model.digest}.npz"


def damage_path(calibration: Path) -> Path:
    """Where damage that was measured at a load lies beside it."""
    return calibration.with_suffix(".damage.npz")


def aside_path(calibration: Path) -> Path:
    """Where a file that cannot be used is put, to make room for what chats show."""
    return calibration.with_suffix(".aside.npz")


def calibration_files(cache_dir: Path, model: ModelKey) -> list[Path]:
    """All that is kept of a model there, the calibration first; empty = there is nothing."""
    path = calibration_path(cache_dir, model)
    all_of_it = path, Part.path(path), damage_path(path), aside_path(path)
    return [file for file in all_of_it if file.exists()]


class _About(msgspec.Struct, frozen=True):
    """Of a finished calibration."""

    version: int
    model: ModelKey
    origin: Origin
    tokens: int
    has_down: bool


@dataclass(frozen=True)
class Calibration:
    """A model's calibration."""

    model: ModelKey
    moments: Moments
    damage: F32 | None = None
    """[L, 2, E, 9]: see `damage.all_damage`. None = not computed, or of other moments."""
    unit: F64 | None = None
    """[L, 2]: what damage of each layer and kind costs the model, in nats (units.py). None = not measured."""
    residuals: PromptResiduals | None = None
    """None = there are none."""
    origin: Origin = "text"

    def save(self, path: Path) -> None:
        """Replace what is at `path`, whole or not at all. Raises FitError."""
        moments = self.moments
        arrays: Arrays = {"gate_up": moments.gate_up, "down": moments.down, "mass": moments.mass}
        if self.damage is not None:
            arrays["damage"] = self.damage
        if self.unit is not None:
            arrays["unit"] = self.unit
        if self.residuals is not None:
            arrays |= {HEADS + name: array for name, array in self.residuals.to_arrays().items()}
        about = _About(VERSION, self.model, self.origin, moments.tokens, moments.has_down)
        write_arrays(path, about, arrays)

    @classmethod
    def load(cls, path: Path, model: ModelKey, spec: ModelSpec) -> "Calibration":
        """Raises ModelError for a file that is damaged, of another version or of another model."""
        about, arrays = read_arrays(path, _About, AGAIN)
        _check_owner(path, about.version, about.model, model, AGAIN)
        _check_shapes(path, arrays, spec, AGAIN)
        moments = Moments(arrays["gate_up"], arrays["down"], arrays["mass"], about.tokens, about.has_down)
        residuals = _residuals(path, arrays, spec)
        return cls(about.model, moments, arrays.get("damage"), arrays.get("unit"), residuals, about.origin)


def kept_origin(path: Path, model: ModelKey) -> Origin | None:
    """What the calibration there comes from; None = there is none. Raises as `Calibration.load`, but reads
    no more than what it says of itself.
    """
    if not path.exists():
        return None
    about = read_record(path, _About, AGAIN)
    _check_owner(path, about.version, about.model, model, AGAIN)
    return about.origin


@dataclass(frozen=True)
class Prices:
    """What widths cost, of a calibration that knows it. Its moments, which take most memory, are not read."""

    damage: F32
    """[L, 2, E, 9]"""
    mass: F64
    """[L, E]"""
    unit: F64
    """[L, 2]"""

    @classmethod
    def load(cls, path: Path, model: ModelKey, spec: ModelSpec) -> "Prices | None":
        """None for a calibration that does not know it. Raises as `Calibration.load`."""
        about, arrays = read_arrays(path, _About, AGAIN, without=_MOMENTS)
        _check_owner(path, about.version, about.model, model, AGAIN)
        _check_shapes(path, arrays, spec, AGAIN, without=_MOMENTS)
        if "damage" not in arrays or "unit" not in arrays:
            return None
        return cls(arrays["damage"], arrays["mass"], arrays["unit"])


def with_samples(kept: Calibration | None, model: ModelKey, added: Moments) -> Calibration:
    """What is kept of a model together with moments from chats (`SampledMoments`). It has no damage: that is
    to be computed anew. Raises ValueError for moments of another model.
    """
    if kept is None:
        return Calibration(model, added, origin="chats")
    return replace(kept, moments=merged(kept.moments, added), damage=None)


class _PartAbout(msgspec.Struct, frozen=True):
    """Of a calibration that is not finished."""

    version: int
    model: ModelKey
    text_sha256: str
    done: int
    tokens: int


@dataclass(frozen=True)
class Part:
    """The sums over the first `done` passages of a text (`text_sha256`: of all of its passages); and of each
    of them what its layers erred at lower widths, f64[layers], and routed to, f64[layers, experts].
    """

    model: ModelKey
    text_sha256: str
    done: int
    sums: Sums
    errors: list[F64]
    masses: list[F64]

    @staticmethod
    def path(calibration: Path) -> Path:
        """Where it lies beside the calibration that it will become."""
        return calibration.with_suffix(".part.npz")

    def save(self, path: Path) -> None:
        """As `Calibration.save`."""
        sums = self.sums
        about = _PartAbout(PART_VERSION, self.model, self.text_sha256, self.done, sums.tokens)
        layers, experts = sums.mass.shape
        arrays: Arrays = {"gate_up": sums.gate_up, "down": sums.down, "mass": sums.mass}
        arrays["errors"] = np.reshape(self.errors, (self.done, layers))
        arrays["masses"] = np.reshape(self.masses, (self.done, layers, experts))
        write_arrays(path, about, arrays)

    @classmethod
    def load(cls, path: Path, model: ModelKey, spec: ModelSpec) -> "Part":
        """As `Calibration.load`."""
        about, arrays = read_arrays(path, _PartAbout, AFRESH)
        _check_owner(path, about.version, about.model, model, AFRESH, PART_VERSION)
        _check_shapes(path, arrays, spec, AFRESH, passages=about.done)
        sums = Sums(spec)
        sums.gate_up, sums.down, sums.mass = arrays["gate_up"], arrays["down"], arrays["mass"]
        sums.tokens = about.tokens
        errors, masses = list(arrays["errors"]), list(arrays["masses"])
        return cls(about.model, about.text_sha256, about.done, sums, errors, masses)


def _residuals(path: Path, arrays: Arrays, spec: ModelSpec) -> PromptResiduals | None:
    own = {name.removeprefix(HEADS): array for name, array in arrays.items() if name.startswith(HEADS)}
    try:
        return PromptResiduals.from_arrays(own, spec.layers, spec.experts) if own else None
    except ValueError as error:
        raise ModelError(f"{path} is damaged: {error}", hint=AGAIN) from error


def _check_owner(
    path: Path, version: int, found: ModelKey, model: ModelKey, hint: str, own: int = VERSION
) -> None:
    if version != own:
        raise ModelError(f"{path} was written by another version of ebbtide", hint=hint)
    if found.digest != model.digest:
        names = f"{shown(found.name)}, not of {shown(model.name)}"
        what = f"is the calibration of {names}"
        if found.name == model.name:
            what = f"is the calibration of another file called {shown(found.name)}"
        raise ModelError(f"{path} {what}", hint=hint)


def _check_shapes(
    path: Path,
    arrays: Arrays,
    spec: ModelSpec,
    hint: str,
    passages: int | None = None,
    without: Collection[str] = (),
) -> None:
    """Everything that is computed with has the shape and type that it should have, and is finite."""
    experts = spec.layers, spec.experts
    wanted: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
        "gate_up": ((*experts, spec.d_model), np.float32),
        "down": ((*experts, spec.expert_d_ff), np.float32),
        "mass": (experts, np.float64),
    }
    if "damage" in arrays:
        wanted["damage"] = ((spec.layers, 2, spec.experts, MAX_PLANES + 1), np.float32)
    if "unit" in arrays:
        wanted["unit"] = ((spec.layers, 2), np.float64)
    if passages is not None:
        wanted |= {"errors": ((passages, spec.layers), np.float64)}
        wanted |= {"masses": ((passages, *experts), np.float64)}
    for name, (shape, kind) in wanted.items():
        if name in without:
            continue
        array = arrays.get(name)
        if array is None or array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
            raise ModelError(f"{path} is damaged: its {name} are not those of this model", hint=hint)
