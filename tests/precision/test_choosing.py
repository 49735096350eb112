"""Widths of an arm for a loaded model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.precision import arms, choosing
from ebbtide.engine.precision.calibration_file import Calibration, calibration_path, model_key
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.known_damage import NO_CALIBRATION, STAGE
from ebbtide.engine.precision.moments import Moments
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import TEXT, of, run
from tests.helpers.in_process import load as load_in
from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny

BLOCKS = EIGHT_EXPERTS["layers"] * 2 * EIGHT_EXPERTS["experts"]


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
    weights = 3 * 128 * 128 * EIGHT_EXPERTS["layers"] * EIGHT_EXPERTS["experts"]
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
    path = write_tiny(folder / "floats.gguf", "mixtral", quant="BF16", **EIGHT_EXPERTS)
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


def keep(path: Path, cache: Path, *, damage: Any = None, mass: Any = None, unit: Any = None) -> Path:
    """A calibration of the model in `cache`; unless they are given, all layers and experts are alike."""
    layers, experts = EIGHT_EXPERTS["layers"], EIGHT_EXPERTS["experts"]
    runtime = Runtime.load(load(path), lambda *_: None)
    key = model_key(runtime.source)
    runtime.close()
    ones = np.ones((layers, experts, 128), np.float32)
    moments = Moments(ones, ones, np.ones((layers, experts)) if mass is None else mass, 100)
    file = calibration_path(cache, key)
    Calibration(key, moments, damage, unit).save(file)
    return file


def even() -> Any:
    """Damage that is the same in all blocks."""
    layers, experts = EIGHT_EXPERTS["layers"], EIGHT_EXPERTS["experts"]
    damage = np.zeros((layers, 2, experts, 9), np.float32)
    damage[:] = 0.25 ** np.arange(9)
    damage[..., 8] = 0
    return damage


def by_layer(found: m.ArmWidths) -> Any:
    return np.frombuffer(found.widths, np.uint8).reshape(EIGHT_EXPERTS["layers"], -1).mean(axis=1)


@pytest.mark.parametrize("name", ["static", "paged"])
@pytest.mark.parametrize("costly", ["damage", "unit"])
def test_planes_are_spent_where_errors_cost_most(
    mixtral: Path, tmp_path: Path, name: str, costly: str
) -> None:
    damage, unit = even(), np.ones((EIGHT_EXPERTS["layers"], 2))
    {"damage": damage, "unit": unit}[costly][1] *= 1000
    keep(mixtral, tmp_path, damage=damage, unit=unit)
    found = answer(mixtral, arm(name, 5, cache_dir=str(tmp_path)))
    layers = by_layer(found)
    assert layers[1] > layers[0] + 2 and layers[0] == pytest.approx(layers[2], abs=0.5)
    assert not found.notices


@pytest.mark.parametrize("has_damage", [False, True])
def test_a_calibration_without_damage_is_measured_with(
    mixtral: Path, tmp_path: Path, has_damage: bool
) -> None:
    mass = np.ones((EIGHT_EXPERTS["layers"], EIGHT_EXPERTS["experts"]))
    mass[0, 2] = 1e9
    keep(mixtral, tmp_path, damage=even() if has_damage else None, mass=mass)
    events = run(load(mixtral), arm("static", 4, cache_dir=str(tmp_path)))
    (found,) = of(events, m.ArmWidths)
    widths = np.frombuffer(found.widths, np.uint8).reshape(mass.shape[0], 2, -1)
    assert (widths[0, :, 2] == 8).all() and not found.notices
    is_measured = STAGE in {event.stage for event in of(events, m.Progress)}
    assert is_measured != has_damage


def test_without_a_calibration_the_weights_alone_decide(mixtral: Path) -> None:
    found = answer(mixtral, arm("static", 5))
    assert found.notices == [NO_CALIBRATION]
    assert found.average_bits == pytest.approx(5, abs=0.05)


def test_a_damaged_calibration_is_told_of_and_left_out(mixtral: Path, tmp_path: Path) -> None:
    alone = answer(mixtral, arm("static", 5))
    file = keep(mixtral, tmp_path, damage=even())
    file.write_bytes(b"no archive")
    found = answer(mixtral, arm("static", 5, cache_dir=str(tmp_path)))
    (notice,) = found.notices
    assert "not used" in notice and "ebbtide calibrate" in notice and file.name in notice
    assert found.widths == alone.widths and file.read_bytes() == b"no archive"


@pytest.mark.parametrize("without", ["", "residual", "sensitivity", "routing", "movement"])
def test_paged_begins_with_what_calibration_knows(mixtral: Path, tmp_path: Path, without: Any) -> None:
    damage = even()
    damage[1] *= 1000
    keep(mixtral, tmp_path, damage=damage)
    cache = str(tmp_path)
    static = answer(mixtral, arm("static", 5, cache_dir=cache))
    found = answer(mixtral, arm("paged", 5, without=without, cache_dir=cache))
    assert found.follows and not static.follows
    assert (found.widths == static.widths) == (without != "sensitivity")
    assert abs(found.expert_bytes - static.expert_bytes) < 2 * 128 * 128 / 8
    assert any("No prompt residuals" in notice for notice in found.notices) == (without == "residual")


def test_the_choice_can_be_cancelled(mixtral: Path) -> None:
    events = run(load(mixtral), arm("static", 4), cancel_after=2)
    (failed,) = of(events, m.Failed)
    assert failed.exit_code == 130 and not of(events, m.ArmWidths)
