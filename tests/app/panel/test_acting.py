"""What a person does to an expert from the panel: the events say which key takes it back."""

import pytest

from ebbtide.engine import decisions
from ebbtide.engine.messages import Decision
from tests.app.panel.test_screen import SIZES, drawn, host
from tests.helpers.panel_host import PanelHost
from tests.helpers.panel_states import feed

PLACE = (1, 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("told", "way"),
    [
        (decisions.by_hand("pin", "pinned", *PLACE), "[p] undoes it"),
        (decisions.by_hand("pin", "unpinned", *PLACE), "[p] undoes it"),
        (decisions.by_hand("evict", "evicted", *PLACE), "[p] reads it again and pins it"),
        (decisions.bounded(*PLACE, (6, 5), held=False), "[b] undoes it"),
        (decisions.bounded(*PLACE, (6, 5), held=True), "[w] undoes it"),
    ],
)
async def test_the_way_back_is_told_while_the_expert_is_chosen(
    size: tuple[int, int], told: Decision, way: str
) -> None:
    made = feed()
    made.take(told)
    made.take(Decision(2.0, "widths", "Precision: something else."))
    async with PanelHost(made).run_test(size=size) as pilot:
        assert way not in await drawn(pilot), "another one is chosen, which the key would act on"
        await pilot.press("down", "right", "right")
        assert way in " ".join((await drawn(pilot)).split())
        made.take(decisions.by_hand("pin", "pinned", 5, 5))
        assert way not in await drawn(pilot), "something else was done since"
        await pilot.press("j")
        assert "undoes" not in await drawn(pilot), "events as they came"


@pytest.mark.parametrize(
    "told", [decisions.bounded(*PLACE, (0, 0), held=False), decisions.refused("No.", "Try.")]
)
async def test_what_no_key_takes_back_names_none(told: Decision) -> None:
    made = feed()
    made.take(told)
    async with PanelHost(made).run_test(size=(120, 40)) as pilot:
        await pilot.press("down", "right", "right")
        assert "undoes" not in await drawn(pilot)
        assert host(pilot).sent == []


async def test_who_only_looks_has_no_way_back() -> None:
    made = feed()
    made.take(decisions.by_hand("pin", "pinned", *PLACE))
    async with PanelHost(made, read_only=True).run_test(size=(120, 40)) as pilot:
        await pilot.press("down", "right", "right")
        assert "undoes" not in await drawn(pilot)
