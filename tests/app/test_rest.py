"""An idle screen does nothing by the clock, whichever it is, and is awake again when something happens."""

import os
from io import BytesIO
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from ebbtide.app.panel.screen import MemoryScreen
from ebbtide.app.paths import find_paths
from ebbtide.app.screens import drawing
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.picker import Picker
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.top_app import TopApp
from ebbtide.app.widgets import resting_area, resting_input
from ebbtide.app.widgets.more_below import MoreBelow
from ebbtide.engine.attach import Viewer, find_engines
from ebbtide.engine.endpoint import Endpoint
from ebbtide.engine.hub import Hub
from tests.helpers.chat_host import answered, ask, chat_app, press, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script
from tests.helpers.panel_states import loaded, machine, residency, snapshot
from tests.helpers.running_timers import quick_timers

LONG_S = 600.0


@pytest.fixture(autouse=True)
def soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """At rest nothing is drawn at all: what is seen all the same shows that something woke the screen."""
    monkeypatch.setattr(drawing, "REST_S", LONG_S)
    monkeypatch.setattr(drawing, "AWAKE_S", 0.5)
    for module in (resting_area, resting_input):
        monkeypatch.setattr(module, "BLINKS", 2)


async def at_rest(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: not quick_timers(pilot.app))


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([], ChatScreen),
        (["f2"], ChatScreen),  # the panel beside the chat
        (["f2", "f2"], MemoryScreen),
        (["f2", "f2", "slash"], MemoryScreen),  # a line to type in
        (["f2", "f2", "question_mark"], TextPage),
        (["f1"], TextPage),
        (["ctrl+p"], Picker),
        (["ctrl+r"], Picker),
    ],
)
async def test_after_an_answer_every_screen_comes_to_rest(keys: list[str], kind: type[Screen[None]]) -> None:
    async with chat_app(Script()).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        for key in keys:
            await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, kind))
        await at_rest(pilot)


async def test_the_panel_of_another_process_comes_to_rest(home: Path) -> None:
    if os.name == "nt":
        return
    hub = Hub(BytesIO())
    for event in (loaded(2, 4), residency(2, 4), machine(), snapshot(5, 9, 1, 0)):
        hub.emit(event)
    folder = find_paths().engines
    endpoint = Endpoint(folder, os.getpid(), hub.frame, lambda watch: None)
    try:
        viewer = Viewer(folder, find_engines(folder)[0])
        async with TopApp(viewer, folder).run_test(size=(120, 40)) as pilot:
            await shown(pilot, "live")
            await at_rest(pilot)
    finally:
        endpoint.close()


async def test_an_answer_wakes_the_screen() -> None:
    async with chat_app(Script(answers={"go": "here are\n\n# words of it"})).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await at_rest(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: not screen_of(pilot).rests)
        await shown(pilot, "words of it", "ready")
        await at_rest(pilot)


async def test_events_alone_keep_it_awake() -> None:
    words = Script(answer=" ".join(f"n{number}." for number in range(5000)), token_delay_s=0.01)
    async with chat_app(words).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        for number in (50, 150, 300):  # longer than a key would keep it awake
            await shown(pilot, f"n{number}.")
            assert quick_timers(pilot.app)
        press(pilot, "escape")
        await shown(pilot, "Stopped.")
        await at_rest(pilot)


async def test_a_load_wakes_it() -> None:
    async with chat_app(Script(answer="x")).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await at_rest(pilot)
        screen_of(pilot).session.reload(screen_of(pilot).session.load)
        await until(pilot, lambda: not screen_of(pilot).rests)
        await shown(pilot, "ready")


async def test_keys_wake_it() -> None:
    script = Script(answer="\n\n".join(f"line {number}" for number in range(100)))
    async with chat_app(script).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        await at_rest(pilot)
        press(pilot, "pageup")
        await until(pilot, lambda: screen_of(pilot).query_one(MoreBelow).display)
