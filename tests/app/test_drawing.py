"""When the chat screen is drawn: keys come first, and nothing is drawn behind another screen."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.panel.screen import MemoryScreen
from ebbtide.app.screens import drawing
from tests.helpers.chat_host import ask, chat_app, drawn, press, ready, screen_of, shown, until, written
from tests.helpers.fake_engine import Script

LONG_S = 600.0
MOST_KEYS = 200
NUMBERS = Script(answer=" ".join(f"n{number}." for number in range(5000)), token_delay_s=0.01)


def words(pilot: Pilot[None]) -> list[str]:
    """What has come of the answer."""
    return screen_of(pilot).session.answer.text.split()


def test_over_ssh_it_is_drawn_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"):
        monkeypatch.delenv(name, raising=False)
    near = drawing.draw_every_s()
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    assert drawing.draw_every_s() > near


async def test_while_somebody_types_the_answer_is_drawn_after_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing, "TYPING_S", LONG_S)  # the timer waits for the next key for good
    async with chat_app(NUMBERS).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        press(pilot, "a")
        await written(pilot, "a")
        count = len(words(pilot))
        await until(pilot, lambda: len(words(pilot)) > count + 20)
        last = words(pilot)[-2]
        for number in range(MOST_KEYS):  # a redraw that is not due yet waits for another key
            if last in drawn(pilot.app):
                break
            press(pilot, "a")
            await written(pilot, "a" * (number + 2))
        assert last in drawn(pilot.app)


async def test_what_came_behind_the_panel_is_there_when_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "HIDDEN_S", LONG_S)
    async with chat_app(NUMBERS).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        screen = screen_of(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: len(screen.session.answer.text.split()) > 5)
        press(pilot, "f2", "f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, MemoryScreen))
        count = len(screen.session.answer.text.split())
        await until(pilot, lambda: len(screen.session.answer.text.split()) > count + 50)
        last = screen.session.answer.text.split()[-2]
        press(pilot, "escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        await shown(pilot, last)
