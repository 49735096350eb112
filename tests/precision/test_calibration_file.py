"""The kept file: whole or not at all, of one model, and never silently damaged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.errors import FitError, ModelError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.calibration_file import (
    Calibration,
    ModelKey,
    Part,
    calibration_path,
    model_key,
    with_samples,
)
from ebbtide.engine.precision.moments import Moments, Sums
from ebbtide.engine.precision.prompt_residual import PromptResiduals
from ebbtide.engine.precision.ridge import RidgeHeads
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_source import open_pack
from ebbtide.engine.weights.pack_write import write_pack
from tests.helpers.tiny_models import write_tiny

KEY = ModelKey("tiny.gguf", 12345, "ab" * 32)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    source = GgufSource(open_gguf(write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", "qwen3moe")))
    source.close()
    return source.spec


def calibration(spec: ModelSpec, **fields: Any) -> Calibration:
    rng = np.random.default_rng(1)

    def some(*shape: int) -> Any:
        return rng.uniform(0.5, 2, shape).astype(np.float32)

    experts = spec.layers, spec.experts
    moments = Moments(
        some(*experts, spec.d_model), some(*experts, spec.expert_d_ff), rng.uniform(0, 1, experts), 900
    )
    return Calibration(KEY, moments, **({"damage": some(spec.layers, 2, spec.experts, 9)} | fields))


def same(one: Calibration, other: Calibration) -> bool:
    names = ("gate_up", "down", "mass", "tokens", "has_down")
    moments = all(np.array_equal(getattr(one.moments, name), getattr(other.moments, name)) for name in names)
    damage = one.damage is other.damage or np.array_equal(one.damage, other.damage)  # type: ignore[arg-type]
    damage = damage and (one.unit is other.unit or np.array_equal(one.unit, other.unit))  # type: ignore[arg-type]
    arrays = [{} if each.residuals is None else each.residuals.to_arrays() for each in (one, other)]
    residuals = arrays[0].keys() == arrays[1].keys() and all(
        np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0]
    )
    return moments and damage and residuals and (one.model, one.origin) == (other.model, other.origin)


def residuals(spec: ModelSpec) -> PromptResiduals:
    rng = np.random.default_rng(5)
    heads = RidgeHeads.fit(rng.normal(size=(20, 2)), rng.normal(size=(20, spec.layers)))
    experts = spec.layers * spec.experts
    return PromptResiduals(rng.uniform(size=experts), rng.normal(size=(2, experts)), heads)


@pytest.mark.parametrize("learnt", [True, False])
@pytest.mark.parametrize("damage", ["kept", None])
def test_what_is_saved_is_loaded(learnt: bool, damage: str | None, spec: ModelSpec, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"residuals": residuals(spec) if learnt else None, "origin": "imatrix"}
    fields |= {} if damage else {"damage": None}
    fields |= {"unit": np.full((spec.layers, 2), 0.5)} if damage else {}
    saved, path = calibration(spec, **fields), tmp_path / "deep" / "file.npz"
    saved.save(path)
    first = path.read_bytes()
    assert same(Calibration.load(path, KEY, spec), saved)
    saved.save(path)
    assert path.read_bytes() == first and [found.name for found in path.parent.iterdir()] == ["file.npz"]


def test_that_of_another_model_is_refused_by_name(spec: ModelSpec, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    calibration(spec).save(path)
    with pytest.raises(ModelError, match=r"of 'tiny.gguf', not of 'big.gguf'"):
        Calibration.load(path, ModelKey("big.gguf", 999, "cd" * 32), spec)
    with pytest.raises(ModelError, match=r"of another file called 'tiny.gguf'"):
        Calibration.load(path, ModelKey("tiny.gguf", 12345, "cd" * 32), spec)
    renamed = ModelKey("renamed.gguf", KEY.size_bytes, KEY.header_sha256)
    assert same(Calibration.load(path, renamed, spec), calibration(spec))


def test_no_damage_goes_unnoticed(spec: ModelSpec, tmp_path: Path) -> None:
    """Any byte that is flipped, and any end that is missing, is noticed or changes nothing."""
    path = tmp_path / "file.npz"
    saved = calibration(spec)
    saved.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    places = [
        *range(0, 400),
        *range(len(whole) - 400, len(whole)),
        *rng.integers(0, len(whole), 150).tolist(),
    ]
    noticed = 0
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert same(Calibration.load(path, KEY, spec), saved)
        except ModelError as error:
            noticed += 1
            assert error.hint
    assert noticed > len(places) / 2
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="damaged"):
            Calibration.load(path, KEY, spec)


def test_what_is_missing_or_of_another_shape(spec: ModelSpec, tmp_path: Path) -> None:
    path, other = tmp_path / "file.npz", tmp_path / "other.npz"
    with pytest.raises(ModelError, match="cannot be read"):
        Calibration.load(path, KEY, spec)
    calibration(spec, damage=np.zeros((1, 2, 3), np.float32)).save(path)
    with pytest.raises(ModelError, match="its damage"):
        Calibration.load(path, KEY, spec)
    calibration(spec, unit=np.ones(spec.layers)).save(path)
    with pytest.raises(ModelError, match="its unit"):
        Calibration.load(path, KEY, spec)
    short = replace(residuals(spec), usual=np.ones(3))
    calibration(spec, residuals=short).save(path)
    with pytest.raises(ModelError, match="prompt residuals of another model"):
        Calibration.load(path, KEY, spec)
    Part(KEY, "00", 0, Sums(spec), [], []).save(other)
    with pytest.raises(ModelError, match="damaged"):
        Calibration.load(other, KEY, spec)


def test_a_disk_that_is_full_leaves_the_old_file(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.npz"
    calibration(spec).save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ebbtide.engine.precision.array_file.os.fsync", full)
    with pytest.raises(FitError, match="No space left"):
        calibration(spec, damage=None).save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_samples_of_chats_are_added_to_what_is_kept(spec: ModelSpec) -> None:
    kept, sums = calibration(spec, residuals=residuals(spec)), Sums(spec, hidden=False)
    sums.gate_up += 3
    sums.mass += 1
    sums.tokens = 100
    first = with_samples(None, KEY, sums.moments())
    assert first.origin == "chats" and not first.moments.has_down and first.damage is None
    both = with_samples(kept, KEY, sums.moments())
    assert both.origin == "text" and both.residuals and both.damage is None and both.moments.tokens == 1000
    assert (both.moments.down == kept.moments.down).all()
    assert (np.abs(both.moments.gate_up - 3) < np.abs(kept.moments.gate_up - 3)).all()


def test_a_model_and_its_pack_have_one_key(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.gguf", "mixtral")
    moved = tmp_path / "moved.gguf"
    moved.write_bytes(path.read_bytes())
    pack = write_pack(path, tmp_path / "model.pack.gguf", page_bytes=8192)
    other = write_tiny(tmp_path / "other.gguf", "mixtral", layers=3)
    plain, copy, foreign = (GgufSource(open_gguf(file)) for file in (path, moved, other))
    packed = open_pack(pack)
    keys = [model_key(source) for source in (plain, copy, packed, foreign)]
    for source in (plain, copy, packed, foreign):
        source.close()
    assert len({calibration_path(tmp_path, key) for key in keys[:3]}) == 1
    assert keys[3].digest != keys[0].digest
