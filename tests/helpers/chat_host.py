"""The chat application with the scripted engine, for pilots.

Keys, events of the engine and the drawing timer are all handled some time after they were sent. A test
therefore waits for the very thing that it asserts, with `until`, `shown` or `written`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from textual.app import App
from textual.events import Key
from textual.pilot import Pilot

from ebbtide.app.chat_app import ChatApp, PostEvent
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Load
from tests.helpers.fake_engine import Script, command_line
from tests.helpers.waiting import PATIENCE_S

LAYOUT_ROUNDS = 10
"""One layout may ask for another (a scrollbar appears, the view follows the end); never so many in a row."""


def chat_app(
    script: Script,
    theme: str = "dark",
    remember: Callable[[str, str | bool], None] = lambda name, value: None,
) -> ChatApp:
    """An application whose engine behaves as `script` says, and whose settings go to `remember`."""

    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        client = EngineClient(command=command_line(script), on_event=post_engine)
        return ChatSession(client, Load("/models/tiny.gguf"))

    return ChatApp(make_session, theme, ChatTools(remember=remember))


def screen_of(pilot: Pilot[None]) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    return screen


def prompt_of(pilot: Pilot[None]) -> Prompt:
    return screen_of(pilot).query_one(Prompt)


def transcript_of(pilot: Pilot[None]) -> Transcript:
    return screen_of(pilot).query_one(Transcript)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the application work until `condition` holds; one that never does fails with the screen."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"still not after {PATIENCE_S:.0f} s; the screen:\n{drawn(pilot.app)}")
        await asyncio.sleep(0.02)  # cheaper than a pause of the pilot, which visits every widget


async def shown(pilot: Pilot[None], *words: str, without: Sequence[str] = ()) -> str:
    """Until all of `words` and none of `without` are on the screen at the same time; returns its text."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = drawn(pilot.app)
        missing = [word for word in words if word not in text]
        unwanted = [word for word in without if word in text]
        if not missing and not unwanted:
            return text
        assert time.monotonic() < deadline, f"missing {missing}, unwanted {unwanted}; the screen:\n{text}"
        await asyncio.sleep(0.02)


async def written(pilot: Pilot[None], text: str) -> None:
    """Until the prompt holds `text` and nothing else."""
    await until(pilot, lambda: prompt_of(pilot).text == text)


async def settled(pilot: Pilot[None]) -> None:
    """Until every widget has handled what was sent to it, and what came of that."""
    for _ in range(LAYOUT_ROUNDS):
        await pilot.pause(0)  # by messages, not by time: a busy machine changes nothing


def press(pilot: Pilot[None], *keys: str) -> None:
    """Send keys as the terminal does, in one burst; they are handled later, in this order."""
    for key in keys:
        character = " " if key == "space" else key if len(key) == 1 else None
        pilot.app.post_message(Key(key, character))


async def ask(pilot: Pilot[None], text: str) -> None:
    """Type `text` at once and press Enter."""
    await until(pilot, lambda: prompt_of(pilot).has_focus)
    prompt_of(pilot).text = text
    press(pilot, "enter")


async def answered(pilot: Pilot[None], text: str) -> None:
    """Ask, and wait until the session has the whole answer."""
    session = screen_of(pilot).session
    turns = len(session.turns)
    await ask(pilot, text)
    await until(pilot, lambda: len(session.turns) == turns + 2 and not session.busy)


async def ready(pilot: Pilot[None]) -> None:
    """Until the model is loaded, nothing is being answered, and keys reach the prompt."""
    session = screen_of(pilot).session
    await until(pilot, lambda: session.loaded is not None and not session.busy and prompt_of(pilot).has_focus)


def drawn(app: App[None]) -> str:
    """Every character of the screen as drawn, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)
