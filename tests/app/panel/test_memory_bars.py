"""The panel's bars are of an engine that lives; without one they say so, wide and narrow alike."""

import pytest

from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.memory_bars import Bars, MemoryBars, SideBars
from ebbtide.engine.client import Died
from ebbtide.engine.messages import Progress
from tests.helpers import panel_states

KINDS = [MemoryBars, SideBars]


def drawn(bars: Bars, width: int = 60) -> str:
    return "\n".join("".join(cell.text for cell in row) for row in bars.rows(width, 10))


@pytest.mark.parametrize("kind", KINDS)
def test_a_living_engine_is_drawn(kind: type[Bars]) -> None:
    text = drawn(kind(panel_states.feed()))
    assert "experts" in text and "270 of 300 MiB" in text and "free" in text


@pytest.mark.parametrize("kind", KINDS)
def test_before_and_while_a_model_is_loaded(kind: type[Bars]) -> None:
    assert drawn(kind(PanelFeed())) == "No model is loaded yet."
    feed = panel_states.feed()
    feed.take(Progress("Loading", 1, 2))
    assert drawn(kind(feed)) == "No model is loaded yet."


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_engine_holds_nothing(kind: type[Bars]) -> None:
    feed = panel_states.feed()
    feed.take(Died(-9, "was killed by SIGKILL"))
    assert drawn(kind(feed)) == "The engine has ended: no memory is in use."
    other = panel_states.feed()
    other.end()  # as `ebbtide top` hears of it
    assert drawn(kind(other)) == "The engine has ended: no memory is in use."


@pytest.mark.parametrize("width", [60, 120])
def test_on_a_card_its_memory_is_shown_beside_the_machines(width: int) -> None:
    feed = panel_states.feed()
    feed.take(panel_states.on_card())
    wide, side = drawn(MemoryBars(feed), width), drawn(SideBars(feed), 34)
    assert "RTX 3060" in wide and "7,650" in wide and "free" in wide and "RAM" in wide
    assert "on card 350 MiB = 270 in use + 5 kept free + 75 runtime" in wide
    assert "process" not in wide and "runtime 75" in wide
    assert ("other programs 2,000" in wide) == (width == 120)
    assert "+ 75 runtime; others 2.0 GiB"[: width - 45] in wide
    assert "card 7,650 of 10,000 MiB free" in side and "RAM 8.8 of 15.6 GiB free" in side


def test_a_card_that_nobody_can_ask_says_so() -> None:
    feed = panel_states.feed()
    feed.take(panel_states.on_card(card="\x1b[31mRTX", card_own_bytes=None, card_free_bytes=None))
    wide = drawn(MemoryBars(feed), 100)
    assert "[31mRTX" in wide and "nobody says how much is free" in wide and "\x1b" not in wide
