"""Widths of an arm for a loaded model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.precision import arms, choosing
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import TEXT, of, run
from tests.helpers.in_process import load as load_in
from tests.helpers.tiny_models import write_tiny

SIZES: dict[str, Any] = {"experts": 8, "d_model": 128, "expert_d_ff": 128, "d_ff": 128, "layers": 3}
BLOCKS = SIZES["layers"] * 2 * SIZES["experts"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def mixtral(folder: Path) -> Path:
    """8 planes in every block."""
    return write_tiny(folder / "mixtral.gguf", "mixtral", **SIZES)


def load(path: Path, budget: str = "32MiB") -> m.Load:
    """With room for all planes and two texts."""
    return load_in(path, budget=budget)


def arm(name: Any, bits: float = 0.0, **fields: Any) -> m.Arm:
    return m.Arm(1, name, bits, **fields)


def answer(path: Path, command: m.Arm, budget: str = "32MiB") -> m.ArmWidths:
    events = run(load(path, budget), command)
    assert not of(events, m.Failed)
    (found,) = of(events, m.ArmWidths)
    assert isinstance(found, m.ArmWidths)
    return found


def costs_of(path: Path) -> Costs:
    runtime = Runtime.load(load(path), lambda *_: None)
    source = runtime.source
    layers = range(source.spec.layers)
    layouts = [
        LayerLayouts(source.expert_layout(n, "gate_up"), source.expert_layout(n, "down")) for n in layers
    ]
    runtime.close()
    return Costs.of(layouts, source.spec.experts)


def test_uniform_and_what_it_takes(mixtral: Path) -> None:
    found, costs = answer(mixtral, arm("uniform", 5.5)), costs_of(mixtral)
    widths = np.frombuffer(found.widths, np.uint8).reshape(costs.shape)
    assert (widths == arms.uniform(costs, 5.5)).all() and set(found.widths) == {5, 6}
    assert found.expert_bytes == costs.expert_bytes(widths) < found.full_bytes
    assert found.average_bits == pytest.approx(5.5, abs=0.05)
    weights = 3 * 128 * 128 * SIZES["layers"] * SIZES["experts"]
    assert found.fp16_bytes == 2 * weights and found.full_bytes == weights * 8.5 / 8


def test_all_planes_are_in_memory_for_what_follows(mixtral: Path) -> None:
    """Whatever idle time there was before."""
    told: list[str] = []
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    table = runtime.fast.table
    assert table is not None and not table.available.any()
    choosing.choose(runtime, arm("uniform", 3), lambda stage, done, total: told.append(stage), lambda: False)
    assert (table.available == 8).all() and "Reading experts" in told
    assert table.is_exact, "nothing is committed by the choice itself"
    runtime.close()


def test_sixteen_bits_are_all_planes_and_more_bytes(mixtral: Path) -> None:
    found = answer(mixtral, arm("fp16"))
    assert found.widths == b"\x08" * BLOCKS and found.average_bits == 16
    assert found.expert_bytes == found.fp16_bytes > found.full_bytes


def test_sixteen_bits_are_not_made_of_eight(folder: Path) -> None:
    path = write_tiny(folder / "floats.gguf", "mixtral", quant="BF16", **SIZES)
    (failed,) = of(run(load(path), arm("fp16")), m.Failed)
    assert failed.exit_code == 2 and "experts of layer 0 are floats" in failed.message and failed.hint
    assert answer(path, arm("uniform", 8)).average_bits == 8, "other arms compare with the planes there are"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (arm("uniform", 9), "--bits 9 cannot be had: this model's experts have 1 to 8 planes"),
        (arm("uniform"), "--bits 0 cannot be had"),
        (arm("static", 0.5), "--bits 0.5 cannot be had"),
        (arm("dp", 0.5), "--bits 0.5 cannot be had"),
        (arm("paged"), "--bits 0 cannot be had"),
    ],
)
def test_what_cannot_be_had(mixtral: Path, command: m.Arm, words: str) -> None:
    (failed,) = of(run(load(mixtral), command), m.Failed)
    assert failed.exit_code == 2 and words in failed.message and failed.hint


def test_a_dense_model_has_no_arms(folder: Path) -> None:
    path = write_tiny(folder / "dense.gguf", "llama")
    (failed,) = of(run(load(path), arm("uniform", 4)), m.Failed)
    assert failed.exit_code == 2 and "no experts" in failed.message


def test_a_budget_for_a_part_is_refused_with_one_that_is_enough(mixtral: Path) -> None:
    (failed,) = of(run(load(mixtral, budget="50%"), arm("uniform", 4)), m.Failed)
    assert failed.exit_code == 4 and "the budget is" in failed.message
    budget = failed.hint.split("EBBTIDE_BUDGET=")[1].split()[0]
    command = m.Score(2, TEXT * 9, against_full=True)
    events = run(load(mixtral, budget), arm("uniform", 4), command)
    assert of(events, m.ArmWidths)[0].average_bits == 4
    assert len(of(events, m.Scored)[0].kl) == 511, "as long as the context"


def fake_damage(calls: list[Any]) -> Any:
    def all_damage(source: Any, moments: Any, progress: Any) -> Any:
        calls.append(moments)
        for done in range(4):
            progress(done, 3)
        damage = np.zeros((SIZES["layers"], 2, SIZES["experts"], 9), np.float32)
        damage[:] = 0.25 ** np.arange(9)
        damage[1] *= 1000
        return damage

    return SimpleNamespace(all_damage=all_damage)


def test_static_spends_planes_where_damage_is(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    parts = {"damage": fake_damage(calls)}
    monkeypatch.setattr(choosing, "_part", parts.get)
    found = answer(mixtral, arm("static", 5))
    layers = np.frombuffer(found.widths, np.uint8).reshape(SIZES["layers"], -1).mean(axis=1)
    assert layers[1] > layers[0] + 3 and layers[0] == pytest.approx(layers[2], abs=0.5)
    assert calls == [None] and "calibration" in found.notices[0]


@pytest.mark.parametrize("has_damage", [False, True])
def test_static_takes_a_calibration_that_is_there(
    mixtral: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_damage: bool
) -> None:
    calls: list[Any] = []
    damage = fake_damage(calls)
    mass = np.ones((SIZES["layers"], SIZES["experts"]))
    mass[0, 2] = 1e9
    moments = SimpleNamespace(mass=mass)
    kept = damage.all_damage(None, None, lambda *_: None) if has_damage else None
    calls.clear()
    file = tmp_path / "kept"
    calibration = SimpleNamespace(
        model_key=lambda source: "key",
        calibration_path=lambda cache, key: file,
        Calibration=SimpleNamespace(load=lambda *_: SimpleNamespace(moments=moments, damage=kept, unit=None)),
    )
    parts = {"damage": damage, "calibration_file": calibration}
    monkeypatch.setattr(choosing, "_part", parts.get)
    without = answer(mixtral, arm("static", 4, cache_dir=str(tmp_path)))
    assert without.notices, "its file is not there"
    file.touch()
    calls.clear()
    found = answer(mixtral, arm("static", 4, cache_dir=str(tmp_path)))
    widths = np.frombuffer(found.widths, np.uint8).reshape(mass.shape[0], 2, -1)
    assert (widths[0, :, 2] == 8).all() and not found.notices
    assert calls == ([] if has_damage else [moments])


@pytest.mark.parametrize("without", ["", "residual", "sensitivity", "routing", "movement"])
def test_paged_begins_with_what_calibration_knows(
    mixtral: Path, monkeypatch: pytest.MonkeyPatch, without: Any
) -> None:
    monkeypatch.setattr(choosing, "_part", {"damage": fake_damage([])}.get)
    static, found = answer(mixtral, arm("static", 5)), answer(mixtral, arm("paged", 5, without=without))
    assert found.follows and not static.follows
    assert (found.widths == static.widths) == (without != "sensitivity")
    assert abs(found.expert_bytes - static.expert_bytes) < 2 * 128 * 128 / 8
    assert any("no residual heads" in notice for notice in found.notices) == (without == "residual")


def test_the_choice_can_be_cancelled(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_part", {"damage": fake_damage([])}.get)
    events = run(load(mixtral), arm("static", 4), cancel_after=2)
    (failed,) = of(events, m.Failed)
    assert failed.exit_code == 130 and not of(events, m.ArmWidths)
