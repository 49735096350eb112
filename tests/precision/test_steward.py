"""Plans for the widths of a loaded model: damage times what is routed times what an error costs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.precision.bounds import Bounds
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import QUALITIES, Quality
from ebbtide.engine.precision.steward import Proposal, Question, Steward
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load
from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny

LAYERS, EXPERTS = EIGHT_EXPERTS["layers"], EIGHT_EXPERTS["experts"]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    path = write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", **EIGHT_EXPERTS)
    opened = Runtime.load(load(path), lambda *_: None)
    yield opened
    opened.close()


def known(*, unit: Any = None, mass: Any = None) -> Known:
    """Blocks that are all alike."""
    damage = np.zeros((LAYERS, 2, EXPERTS, 9))
    damage[:] = 0.25 ** np.arange(9)
    damage[..., 8] = 0
    return Known(damage, np.ones((LAYERS, EXPERTS)) if mass is None else mass, unit)


def table_of(runtime: Runtime) -> WeightPageTable:
    assert runtime.fast.table is not None
    return runtime.fast.table


ANYTHING_GOES = QUALITIES["fast"]._replace(nats=np.inf)


def planned(runtime: Runtime, about: Known, share: float = 0.5, quality: Quality = ANYTHING_GOES) -> Proposal:
    """For a share of all pages."""
    own, table = Steward(table_of(runtime), about, quality), table_of(runtime)
    assert about.mass is not None
    return own.plan(Question(about.mass, table.committed.copy(), int(share * own.whole_pages)))


def test_layers_where_errors_cost_more_keep_more_planes(runtime: Runtime) -> None:
    unit = np.ones((LAYERS, 2))
    unit[1] = 1000
    even, uneven = (planned(runtime, known(unit=u)).widths.mean(axis=(1, 2)) for u in (None, unit))
    assert uneven[1] > even[1] and uneven[1] > max(uneven[0], uneven[2]) + 2


def test_kinds_are_told_apart(runtime: Runtime) -> None:
    unit = np.ones((LAYERS, 2))
    unit[:, 1] = 1000
    widths = planned(runtime, known(unit=unit)).widths
    assert widths[:, 1].mean() > widths[:, 0].mean() + 2


def test_damage_is_told_in_the_units_of_a_plan(runtime: Runtime) -> None:
    """A gain is weighed as the plan that brings it."""
    plain, costly = (planned(runtime, known(unit=u)) for u in (None, np.full((LAYERS, 2), 3.0)))
    assert (plain.widths == costly.widths).all() and plain.damage > plain.damage_now == 0
    assert costly.damage == pytest.approx(3 * plain.damage)


@pytest.mark.parametrize("name", QUALITIES)
def test_no_plan_costs_more_than_its_quality_allows(runtime: Runtime, name: str) -> None:
    """Where it is known what errors cost; a budget that wants more gets the narrowest that is allowed."""
    quality, unit = QUALITIES[name]._replace(tolerated=0.9), np.full((LAYERS, 2), 0.5)
    freely = planned(runtime, known(unit=unit), 0.3)
    found = planned(runtime, known(unit=unit), 0.3, quality)
    assert quality.nats / 2 < found.damage <= quality.nats < freely.damage
    assert found.pages > freely.pages
    enough = planned(runtime, known(unit=unit), 0.95, quality)
    assert enough.damage < found.damage and enough.widths.mean() > found.widths.mean()


def test_without_a_calibration_each_block_keeps_more(runtime: Runtime) -> None:
    """A quarter of the error with each plane: 1.6 % of the power is lost with 3 of them, 6.4 % with 2."""
    unit = np.full((LAYERS, 2), 1e-9)
    told, alone = (planned(runtime, known(unit=u), 0.0).widths.min() for u in (unit, None))
    assert (told, alone) == (2, 3)


@pytest.mark.parametrize("unit", [None, 1.0])
def test_the_least_that_bounds_allow_is_what_a_plan_of_them_takes(
    runtime: Runtime, unit: float | None
) -> None:
    """Also where a calibration says how much all of them may lose together."""
    units = None if unit is None else np.full((LAYERS, 2), unit)
    table, about = table_of(runtime), known(unit=units)
    steward, mass = Steward(table, about, QUALITIES["fast"]), np.ones((LAYERS, EXPERTS))
    free, whole = Bounds.none(steward.most), np.array([8, 8], np.uint8)
    bounded = free
    for expert in range(EXPERTS):
        bounded = bounded.changed(1, expert, whole, whole)
    least = [steward.least_pages(bounds, mass) for bounds in (free, bounded)]
    plans = [steward.plan(Question(mass, table.committed.copy(), 0, bounds)) for bounds in (free, bounded)]
    assert least == [plan.least_pages for plan in plans] and least[1] > least[0]
    assert [plan.pages for plan in plans] == least and (plans[1].widths[1] == 8).all()
