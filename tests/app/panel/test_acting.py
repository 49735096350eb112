"""What a person does to an expert from the panel: it is seen there, and told with the key that undoes it."""

import pytest
from msgspec import structs

from ebbtide.engine import decisions
from ebbtide.engine.messages import Bound, Decision
from tests.app.panel.test_screen import SIZES, drawn, host
from tests.helpers.panel_host import PanelHost
from tests.helpers.panel_states import feed, residency

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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_bounds_of_widths_are_seen_and_the_same_keys_end_them(
    size: tuple[int, int], theme: str
) -> None:
    made = feed(4, 8)
    places = 4 * 8
    least, held, blocks = bytearray(places), bytearray(places), bytearray([8] * 2 * places)
    least[1], least[2], held[2] = 5, 4, 1
    blocks[1], blocks[9], blocks[2], blocks[10] = 5, 6, 4, 4
    made.take(
        structs.replace(
            residency(4, 8, lambda layer, expert: 5),
            bounds=bytes(least),
            held=bytes(held),
            block_widths=bytes(blocks),
            average_bits=6.54,
        )
    )
    async with PanelHost(made, theme).run_test(size=size) as pilot:
        text = await drawn(pilot)
        assert "[b] at least   [w] hold width" in text and "≥" in text and "=" in text and "mean 6.54" in text
        await pilot.press("w", "right")
        text = await drawn(pilot)
        assert "5+6-bit" in text and "· at least 5" in text and "[b] free" in text
        await pilot.press("b", "right")
        text = await drawn(pilot)
        assert "4-bit" in text and "· held" in text and "[b] at least   [w] free" in text
        await pilot.press("w", "b", "right", "b")
        assert host(pilot).sent == [
            Bound(0, 0, held=True),
            Bound(0, 1),
            Bound(0, 2),
            Bound(0, 2, least=4),
            Bound(0, 3, least=8),
        ]
