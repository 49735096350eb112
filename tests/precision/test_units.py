"""What damage of each layer and kind costs: told from what was planted, and measured on tiny models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.precision import units
from ebbtide.engine.precision.damage import all_damage
from ebbtide.engine.precision.prompt_errors import lower_widths
from ebbtide.engine.precision.units import measure_units, units_of
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import TEXT, load
from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", **EIGHT_EXPERTS)


def measured(
    model: Path, told: list[Any] | None = None, scale: np.ndarray | None = None, **fields: Any
) -> np.ndarray:
    runtime = Runtime.load(load(model, **fields), lambda *_: None)
    table = runtime.fast.table
    assert table is not None
    damage = all_damage(runtime.source, None, lambda *_: None)
    if scale is not None:
        damage *= scale[:, :, None, None]
    mass = np.full((EIGHT_EXPERTS["layers"], EIGHT_EXPERTS["experts"]), 0.1)
    ids = runtime.tokenizer.encode(TEXT, add_bos=True, parse_special=False)
    report = [] if told is None else told
    found = measure_units(
        runtime, damage, mass, [ids[:200], ids[200:]], lambda *at: report.append(at), lambda: False
    )
    assert table.is_exact and runtime.memory().kv_bytes == 0 and runtime.fast.provenance(Lane.DECODE).exact
    runtime.fast.check_integrity()
    runtime.close()
    assert found is not None
    return found


def test_they_are_told_from_what_was_measured() -> None:
    unit = np.array([[1.0, 8], [2, 0.25], [0.5, 0.5]])
    predicted = np.array([[3.0, 1], [10, 1e-9], [1e9, 2]])
    total = float((unit * predicted).sum())
    found = units_of(unit * predicted, predicted, total)
    assert found is not None
    np.testing.assert_allclose(found, unit, rtol=1e-12)


def test_they_are_scaled_to_what_all_cost_together() -> None:
    predicted = np.array([[3.0, 1], [2, 4]])
    found = units_of(2 * predicted, predicted, 5.0)
    assert found is not None and (found == found[0, 0]).all()
    assert (found * predicted).sum() == pytest.approx(5.0)


def test_between_two_layers_and_where_nothing_is_known() -> None:
    unknown = np.array([[1.0, np.nan], [np.nan, np.nan], [0, np.nan], [8, np.nan]])
    found = units_of(unknown, np.ones((4, 2)), 1.0)
    assert found is not None and (found * np.ones((4, 2))).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found[1:, 0] / found[:-1, 0], 2, rtol=1e-12)
    assert (found[:, 1] == found[0, 1]).all()
    assert units_of(np.zeros((2, 2)), np.zeros((2, 2)), 0.0) is None
    assert units_of(np.zeros((2, 2)), np.ones((2, 2)), 1.0) is None


@pytest.mark.parametrize("layers", [1, 5, 32, 33, 100])
def test_a_deep_model_is_sampled(layers: int) -> None:
    found = units._layers(layers)
    assert len(found) == min(layers, units.MOST_LAYERS) and found == sorted(set(found))
    assert found[0] == 0 and found[-1] == layers - 1


def test_blocks_are_measured_below_all_their_planes() -> None:
    full = np.array([[[8, 6, 5, 4, 3, 2, 1]]], np.uint8)
    assert lower_widths(full).tolist() == [[[5, 4, 3, 3, 2, 1, 1]]]


def test_a_factor_in_the_damage_comes_back(model: Path) -> None:
    """What the model loses stays the same, so a unit is worth as much less."""
    told: list[Any] = []
    plain = measured(model, told)
    assert plain.shape == (3, 2) and (plain > 0).all()
    assert [at[1:] for at in told] == [(done, 6) for done in range(7)]
    scale = np.ones((3, 2), np.float32)
    scale[1, 0] = 100
    other = measured(model, scale=scale)
    ratio = plain / other
    np.testing.assert_allclose(ratio / ratio[0, 0], scale, rtol=1e-5)


def test_the_budget_changes_no_bit(model: Path) -> None:
    whole = measured(model)
    assert (measured(model, budget="0%", threads=1) == whole).all()


@pytest.mark.parametrize("layers", [1, 10, 20])
def test_a_cancelled_one_leaves_every_plane(model: Path, layers: int) -> None:
    runtime = Runtime.load(load(model), lambda *_: None)
    table, calls = runtime.fast.table, iter(range(100))
    damage = np.ones((3, 2, 8, 9), np.float32)
    with pytest.raises(Cancelled):
        measure_units(
            runtime,
            damage,
            np.ones((3, 8)),
            [[1] * 50],
            lambda *_: None,
            lambda: next(calls) >= layers,
        )
    assert table is not None and table.is_exact and runtime.memory().kv_bytes == 0
    runtime.fast.check_integrity()
    runtime.close()
