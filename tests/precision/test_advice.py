"""What is said about narrower experts where many had to be read: what they buy and cost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.precision.advice import advice
from ebbtide.engine.precision.arms import even_damage
from ebbtide.engine.precision.calibration_file import Calibration, calibration_path, model_key
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.moments import Moments
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load


@pytest.fixture
def runtime(mixtral: Path) -> Iterator[Runtime]:
    opened = Runtime.load(load(mixtral, budget="60%"), lambda *_: None)
    yield opened
    opened.close()


def costs_of(runtime: Runtime) -> Costs:
    assert runtime.fast.table is not None
    return Costs.of(runtime.fast.table.layouts, runtime.fast.table.experts)


def keep(runtime: Runtime, cache: Path, nats_at_one_plane: float, **fields: Any) -> Path:
    """A calibration by which all experts at one plane would cost so much together."""
    spec, key = runtime.spec, model_key(runtime.source)
    experts = spec.layers, spec.experts
    gate_up, down = (np.ones((*experts, size), np.float32) for size in (spec.d_model, spec.expert_d_ff))
    damage = even_damage(costs_of(runtime)).astype(np.float32)
    mass = np.full(experts, 1 / spec.experts)
    total = float((damage[..., 1].transpose(0, 2, 1).sum(axis=2) * mass).sum())
    unit = np.full((spec.layers, 2), nats_at_one_plane / total)
    path = calibration_path(cache, key)
    Calibration(key, Moments(gate_up, down, mass, 1000), **({"damage": damage, "unit": unit} | fields)).save(
        path
    )
    return path


def test_it_ends_with_the_best_quality_that_lets_all_fit(runtime: Runtime, tmp_path: Path) -> None:
    keep(runtime, tmp_path, 1.0)
    said = advice(runtime, str(tmp_path), 0.5)
    assert said is not None and said.kind == "advice"
    assert "50% of the experts asked for had to be read" in said.sentence
    assert "high 100% (+" in said.sentence and "balanced" not in said.sentence
    assert said.numbers["high_held"] == 1 and 0 < said.numbers["high_nats"] <= 0.01
    assert 3 < said.numbers["high_bits"] < 6


def test_what_costs_more_is_another_quality(runtime: Runtime, tmp_path: Path) -> None:
    keep(runtime, tmp_path, 12.0)
    said = advice(runtime, str(tmp_path), 1.0)
    assert said is not None and "balanced 100% (+" in said.sentence and "fast" not in said.sentence
    assert said.numbers["high_held"] < said.numbers["balanced_held"] == 1
    assert 0.01 < said.numbers["balanced_nats"] <= 0.04


def test_where_no_quality_lets_all_fit_it_says_how_many(runtime: Runtime, tmp_path: Path) -> None:
    keep(runtime, tmp_path, 10_000.0)
    said = advice(runtime, str(tmp_path), 1.0)
    assert said is not None
    held = [said.numbers[f"{name}_held"] for name in QUALITIES]
    assert 0.4 < held[0] <= held[1] <= held[2] < 1 and held[0] < held[2]
    for name in QUALITIES:
        assert f"{name} {said.numbers[f'{name}_held']:.0%}" in said.sentence


@pytest.mark.parametrize("case", ["none", "no unit", "damaged", "no folder"])
def test_without_a_measured_price_it_says_how_to_get_one(case: str, runtime: Runtime, tmp_path: Path) -> None:
    if case == "no unit":
        keep(runtime, tmp_path, 1.0, unit=None)
    if case == "damaged":
        keep(runtime, tmp_path, 1.0).write_bytes(b"no archive")
    said = advice(runtime, "" if case == "no folder" else str(tmp_path), 1.0)
    assert said is not None and "ebbtide calibrate" in said.sentence and set(said.numbers) == {"missed"}


def test_narrow_models_and_other_qualities_hear_nothing(mixtral: Path, tmp_path: Path) -> None:
    for fields in ({"quality": "balanced", "cache_dir": str(tmp_path)}, {"width": 4}):
        runtime = Runtime.load(load(mixtral, budget="60%", **fields), lambda *_: None)
        assert advice(runtime, str(tmp_path), 1.0) is None
        runtime.close()
