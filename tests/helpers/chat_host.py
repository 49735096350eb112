"""The chat application with the scripted engine, for pilots."""

import asyncio
import time
from collections.abc import Callable

from textual.pilot import Pilot

from ebbtide.app.chat_app import ChatApp, PostEvent
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Load
from tests.helpers.fake_engine import Script, command_line

PATIENCE_S = 20.0


def chat_app(
    script: Script, theme: str = "dark", remember_theme: Callable[[str], None] = lambda theme: None
) -> ChatApp:
    """An application whose engine behaves as `script` says."""

    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        client = EngineClient(command=command_line(script), on_event=post_engine)
        return ChatSession(client, Load("/models/tiny.gguf"))

    return ChatApp(make_session, theme, remember_theme)


def screen_of(pilot: Pilot[None]) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    return screen


def prompt_of(pilot: Pilot[None]) -> Prompt:
    return screen_of(pilot).query_one(Prompt)


def transcript_of(pilot: Pilot[None]) -> Transcript:
    return screen_of(pilot).query_one(Transcript)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the application work until `condition` holds; a bounded wait."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.02)  # cheaper than a pause of the pilot, which visits every widget
    await pilot.pause()


async def ask(pilot: Pilot[None], text: str) -> None:
    """Type `text` at once and press Enter."""
    prompt_of(pilot).text = text
    await pilot.press("enter")


async def ready(pilot: Pilot[None]) -> None:
    """Until the model is loaded and nothing is being answered."""
    session = screen_of(pilot).session
    await until(pilot, lambda: session.loaded is not None and not session.busy)


def shown_text(pilot: Pilot[None]) -> str:
    """Every character of the screen as drawn, line by line."""
    lines = screen_of(pilot)._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)
