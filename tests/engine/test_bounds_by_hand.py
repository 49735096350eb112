"""Bounds that a person sets to widths: kept by every plan, told of, refused where they cannot be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.memory import change
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.steward import Steward
from tests.engine.test_widths_that_follow import SIZES, Watched, growing, loaded
from tests.helpers.in_process import generate, of
from tests.helpers.tiny_models import write_tiny

PLACE = (1, 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", **SIZES)


def bound(place: tuple[int, int] = PLACE, **fields: Any) -> m.Bound:
    return m.Bound(*place, **fields)


def after_load(seen: Watched, *commands: Callable[[], m.Command]) -> Watched:
    """Give commands once nothing is left to do for the one before."""
    waiting = list(commands)

    def idle() -> m.Command | None:
        engine = seen.engine
        busy = engine._runtime is None or engine._answer is not None or engine._has_idle_work
        return waiting.pop(0)() if waiting and not busy and not engine._waiting else None

    seen.idle = idle
    return seen.run()


def widths_of(seen: Watched, place: tuple[int, int] = PLACE) -> list[int]:
    return [int(width) for width in seen.table.committed[place[0], :, place[1]]]


def test_a_minimum_is_reached_and_kept_while_the_conversation_grows(model: Path) -> None:
    seen = after_load(Watched(loaded(model)), lambda: bound(least=7), lambda: growing())
    (told,) = seen.told("bound")
    assert "L01 expert 2 keeps at least 7 bits" in told.sentence
    (finished,) = of(seen.events, m.Finished)
    assert finished.finish_reason == "length" and min(seen.average) < seen.average[0] - 1
    during = [widths[1, :, 2].min() for widths in seen.widths[-20:]]
    assert min(during) >= 7 and min(widths_of(seen)) >= 7
    others = seen.widths[-1].copy()
    others[1, :, 2] = 8
    assert others.min() < 7, "nobody else has the bound"
    assert any("for a bound set by hand" in decision.sentence for decision in seen.told())


def test_a_held_expert_stays_while_the_others_fall_and_rise(model: Path) -> None:
    held: list[int] = []
    seen = Watched(loaded(model))

    def hold() -> m.Command:
        held.extend(widths_of(seen))
        return bound(held=True)

    after_load(seen, hold, lambda: growing(), m.Clear)
    assert len({widths.tobytes() for widths in seen.widths}) > 2
    assert all(widths[1, :, 2].tolist() == held for widths in seen.widths[1:])
    (told,) = seen.told("bound")
    bits = str(held[0]) if held[0] == held[1] else f"{held[0]}+{held[1]}"
    assert told.sentence == f"L01 expert 2 held at {bits} bits by hand"


def test_a_bound_that_is_ended_binds_nobody(model: Path) -> None:
    seen = after_load(Watched(loaded(model)), lambda: bound(least=8), bound, lambda: growing())
    assert [d.numbers["least"] for d in seen.told("bound")] == [8, 0]
    assert "no bound any more" in seen.told("bound")[1].sentence
    assert min(int(widths[1, :, 2].min()) for widths in seen.widths) < 8


def test_bounds_go_with_the_model(model: Path) -> None:
    seen = Watched(loaded(model))
    after_load(seen, lambda: bound(least=8), lambda: loaded(model))
    assert seen.engine._widths is not None and not seen.engine._widths.bounds.least.any()


def test_a_bound_in_the_middle_of_an_answer_is_kept_by_its_end(model: Path) -> None:
    seen = Watched(loaded(model))
    asked: list[int] = []

    def idle() -> m.Command | None:
        if not asked and len(of(seen.events, m.Token)) > 5:
            asked.append(1)
            return bound(least=8)
        return None

    seen.idle = idle
    seen.add(growing(text="def", max_tokens=60))
    seen.run()
    assert seen.told("bound") and widths_of(seen) == [8, 8]
    assert seen.widths[seen.ends[0] - 1][1, :, 2].tolist() == [8, 8], "not only when nobody asks any more"
    assert any("for a bound set by hand" in decision.sentence for decision in seen.told())


def test_in_exact_mode_widths_do_not_change(model: Path) -> None:
    seen = after_load(Watched(loaded(model, "exact")), lambda: bound(least=4))
    (refused,) = seen.told("refused")
    assert "--quality exact" in refused.sentence and "/quality" in refused.sentence
    assert seen.table.epoch == 0


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (bound((3, 0), least=4), "no expert 0 in layer 3"),
        (bound((0, -1), held=True), "no expert -1 in layer 0"),
        (bound(least=9), "has 8 bits, and cannot keep 9"),
    ],
)
def test_what_is_not_there_is_refused(model: Path, wish: m.Bound, words: str) -> None:
    seen = after_load(Watched(loaded(model)), lambda: wish)
    (refused,) = seen.told("refused")
    assert words in refused.sentence


def test_a_bound_that_the_budget_does_not_hold_is_refused_with_numbers(model: Path) -> None:
    """One expert after the other is bounded, until the next one would not fit; the budget named holds it."""
    places = [(layer, expert) for layer in range(3) for expert in range(8)]

    def all_bounded(budget: str) -> Watched:
        wishes = [lambda place=place: bound(place, least=8) for place in places]
        return after_load(Watched(loaded(model, budget=budget)), *wishes)

    seen = all_bounded("75%")
    refused, taken = seen.told("refused"), seen.told("bound")
    assert refused and taken and len(refused) + len(taken) == len(places)
    assert "all experts take" in refused[0].sentence and "--budget" in refused[0].sentence
    steward: Steward = seen.engine._widths._steward  # type: ignore[union-attr]
    plan = seen.runtime.plan
    assert seen.engine._widths is not None
    mass = np.ones((SIZES["layers"], 8))
    assert steward.least_pages(seen.engine._widths.bounds, mass) <= plan.total_pages - plan.kv_floor_pages
    smallest = refused[0].sentence.split("--budget ")[1].split()[0]
    assert len(all_bounded(smallest).told("bound")) > len(taken)


def test_the_picture_has_bounds_and_the_average_of_the_event_log(model: Path) -> None:
    seen = after_load(
        Watched(loaded(model)),
        lambda: m.Watch(0.05),
        lambda: bound(least=7),
        lambda: bound((0, 1), held=True),
        lambda: generate(max_tokens=2, text="def"),
    )
    picture = of(seen.events, m.Residency)[-1]
    bounds = [divmod(at, 8) for at, least in enumerate(picture.bounds) if least]
    assert bounds == [(0, 1), PLACE] and [divmod(at, 8) for at, on in enumerate(picture.held) if on] == [
        (0, 1)
    ]
    table = seen.table
    costs = Costs.of(table.layouts, table.experts)
    assert picture.average_bits == pytest.approx(costs.average_bits(table.committed))
    assert picture.average_bits == pytest.approx(seen.told()[-1].numbers["bits"])
    assert sum(picture.width_bytes) == picture.memory.expert_bytes
    assert len(picture.block_widths) == 2 * len(picture.widths)


def test_the_map_is_live_while_widths_rise_at_rest(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.engine.telemetry.RateLimit.ready", lambda limit: True)
    monkeypatch.setattr(change, "BATCH_EXPERTS", 2)
    seen = Watched(loaded(model), growing(), m.Clear())
    seen.add(m.Watch(0.05))
    seen.run()
    cleared = next(at for at, event in enumerate(seen.events) if isinstance(event, m.Finished))
    pictures = of(seen.events[cleared:], m.Residency)
    averages = [picture.average_bits for picture in pictures]
    rising = [picture for picture in pictures if sum(picture.widths) and picture.average_bits < max(averages)]
    assert len({picture.block_widths for picture in rising}) > 1, "planes arrive one batch after another"


def test_an_expert_that_never_gets_narrower_needs_no_bound(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "mixtral", quant="Q4_0", **SIZES)
    wishes: list[Callable[[], m.Command]] = [lambda: bound(least=2), lambda: bound(held=True), bound]
    seen = after_load(Watched(loaded(path, "high")), *wishes)
    words = "Fewer than its 4 bits would lose more than --quality high allows"
    assert [words in refused.sentence for refused in seen.told("refused")] == [True, True]
    assert len(seen.told("bound")) == 1, "to end one is no wish for one"
