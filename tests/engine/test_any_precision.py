"""A model in a pack with any-precision codes: exact at every budget, widths that follow, what is refused."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.errors import UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.messages import ArmName
from ebbtide.engine.precision import known_damage as known
from ebbtide.engine.precision.arm_choice import OWN_FULL_WIDTH
from ebbtide.engine.precision.calibration_file import Calibration, calibration_path, key_of
from ebbtide.engine.precision.moments import Moments, steadied
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.open import read_spec
from ebbtide.engine.weights.pack_index import pack_path_for
from ebbtide.engine.weights.pack_source import open_pack
from ebbtide.engine.weights.pack_write import write_pack
from tests.helpers.in_process import generate, load, of, run
from tests.helpers.tiny_models import write_tiny

PAGE = 4096


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return write_tiny(folder / "mixtral.gguf", "mixtral", experts=6, d_model=128, expert_d_ff=128, heads=4)


@pytest.fixture(scope="module")
def calibration(model: Path) -> Calibration:
    file = open_gguf(model)
    spec, rng = read_spec(file), np.random.default_rng(0)
    shapes = [(spec.layers, spec.experts, cols) for cols in (spec.d_model, spec.expert_d_ff)]
    rows = [rng.gamma(0.5, size=shape).astype(np.float32) for shape in shapes]
    mass = rng.gamma(1.0, size=(spec.layers, spec.experts))
    return Calibration(
        key_of(file), Moments(rows[0], rows[1], mass, 900), unit=rng.gamma(1.0, size=(spec.layers, 2))
    )


@pytest.fixture(scope="module")
def pack(model: Path, calibration: Calibration) -> Path:
    wish = BookWish(steadied(calibration.moments))
    return write_pack(model, model.with_name("mixtral.any.pack.gguf"), page_bytes=PAGE, books=wish)


def told(path: Path, *commands: m.Command, **fields: Any) -> tuple[m.Loaded, list[int]]:
    events = run(load(path, ctx=512, **fields), *commands)
    assert not of(events, m.Failed), of(events, m.Failed)
    return of(events, m.Loaded)[0], of(events, m.Finished)[0].token_ids


def test_the_same_tokens_at_every_budget(pack: Path) -> None:
    asked = generate(max_tokens=24, ignore_end=True)
    told_at = [told(pack, asked, budget=budget) for budget in ("20%", "40%", "100%")]
    answers = [answer for _, answer in told_at]
    assert len(answers[0]) == 24 and answers[0] == answers[1] == answers[2]
    for loaded, _ in told_at:
        assert any("Exact means exactly these codes" in notice for notice in loaded.notices)


def test_keys_of_the_model_are_not_used_for_its_pack(model: Path, pack: Path) -> None:
    asked = generate(max_tokens=4)
    events = run(load(model), asked, load(pack), generate(2, max_tokens=4), generate(3, max_tokens=4))
    assert [done.usage.cached > 0 for done in of(events, m.Finished)] == [False, False, True]


@pytest.mark.parametrize("quality", ["high", "fast"])
def test_widths_follow_memory(pack: Path, tmp_path: Path, quality: str) -> None:
    cache = str(tmp_path / "cache")
    loaded, tokens = told(pack, generate(max_tokens=8), budget="50%", quality=quality, cache_dir=cache)
    assert tokens and known.BOOKS_ALONE not in loaded.notices
    assert not (tmp_path / "cache" / "calibration").exists(), "nothing had to be measured"


def test_damage_is_what_the_pack_says(
    model: Path, pack: Path, calibration: Calibration, tmp_path: Path
) -> None:
    source = open_pack(pack)

    def found(cache: Path, of: Path = pack) -> known.Known:
        source = open_pack(of)
        try:
            return known.known_damage(source, str(cache), 1, lambda *_: None)
        finally:
            source.close()

    path = calibration_path(tmp_path, calibration.model)
    path.parent.mkdir(parents=True)
    without = found(tmp_path)
    np.testing.assert_array_equal(without.damage, source.book_errors())
    assert without.mass is None and without.notices == ()
    calibration.save(path)
    same = found(tmp_path)
    assert same.mass is not None and same.unit is not None and same.notices == ()
    np.testing.assert_array_equal(same.damage, source.book_errors())
    other = replace(calibration.moments, down=2 + calibration.moments.down)
    Calibration(calibration.model, other, unit=calibration.unit).save(path)
    before = found(tmp_path)
    assert before.unit is None and before.mass is not None and before.notices == (known.BOOKS_BEFORE,)
    path.write_bytes(b"no archive")
    assert "is not used" in found(tmp_path).notices[0]
    alone = write_pack(model, tmp_path / "alone.any.pack.gguf", page_bytes=PAGE, books=BookWish())
    assert found(tmp_path / "nothing", alone).notices == (known.BOOKS_ALONE,)
    source.close()


@pytest.mark.parametrize("arm", ["uniform", "static", "paged"])
def test_arms_take_it(pack: Path, arm: ArmName) -> None:
    (chosen,) = of(run(load(pack, budget="64MiB"), m.Arm(1, arm, 4.0)), m.ArmWidths)
    assert chosen.average_bits == pytest.approx(4.0, abs=0.1)
    assert OWN_FULL_WIDTH in chosen.notices


def test_what_needs_the_models_own_weights_is_refused(pack: Path, tmp_path: Path) -> None:
    for command, words, hint in (
        (m.Arm(1, "fp16", 0.0), "any-precision codes", "Give the model file"),
        (m.Calibrate(1, str(tmp_path)), "these follow from a calibration", "mixtral.gguf"),
    ):
        (failed,) = of(run(load(pack), command), m.Failed)
        assert failed.exit_code == 2 and words in failed.message and hint in failed.hint
    assert not (tmp_path / "calibration").exists()


def test_in_the_exact_packs_place_it_is_not_taken_for_it(model: Path, pack: Path, tmp_path: Path) -> None:
    place = pack_path_for(model, tmp_path)
    place.parent.mkdir(parents=True)
    shutil.copy2(pack, place)
    refused = run(load(model, budget="30%", pack="no", cache_dir=str(tmp_path)))
    (failed,) = of(refused, m.Failed)
    assert "no pack but one with any-precision codes" in failed.message
    (failed,) = of(run(load(model, budget="30%", pack="yes", cache_dir=str(tmp_path))), m.Failed)
    assert failed.exit_code == UsageError.exit_code and "any-precision codes" in failed.message
    assert place.read_bytes() == pack.read_bytes()
