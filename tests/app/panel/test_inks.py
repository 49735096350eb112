"""Every ink of the panel can be read on what it is drawn on, in both schemes."""

import pytest
from textual.color import Color

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import Ink
from ebbtide.app.panel.inks import INKS
from ebbtide.app.panel.side import SidePanel
from ebbtide.app.panel.sparks import Sparks
from tests.helpers.contrast import ENOUGH_CONTRAST, contrast
from tests.helpers.panel_host import PanelHost
from tests.helpers.panel_states import feed

DECORATION = {"faint"}
"""Lines between sections, and seconds in which nothing happened."""


def contrast_of(canvas: Canvas, ink: Ink) -> float:
    style = canvas.ink(ink)
    assert style.color is not None and style.bgcolor is not None
    return contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_contrast_of_every_ink(theme: str) -> None:
    made = feed()
    async with PanelHost(made, theme).run_test(size=(120, 40)) as pilot:
        side = SidePanel(made)
        await pilot.app.screen.mount(side)
        side.open()
        await pilot.pause()
        for canvas in (pilot.app.screen.query(Sparks).first(), side.query_one(Sparks)):
            found = {ink: contrast_of(canvas, ink) for ink in INKS if ink not in DECORATION}
            assert {ink: value for ink, value in found.items() if value < ENOUGH_CONTRAST} == {}
