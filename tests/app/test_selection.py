"""Text that is selected with the mouse: Ctrl+C copies it, Escape lets go of it."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.screens import chat
from ebbtide.app.widgets.answer_text import AnswerText
from tests.helpers.chat_host import answered, ask, chat_app, press, prompt_of, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script

LONG = Script(answer="one two three four five", token_delay_s=0.01)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went to the clipboard."""
    texts: list[str] = []

    def copy(text: str, send: object) -> str:
        texts.append(text)
        return f"Copied {len(text)} characters."

    monkeypatch.setattr(chat, "copy", copy)
    return texts


async def select(pilot: Pilot[None]) -> str:
    """Drag over a part of the last answer."""
    screen = screen_of(pilot)
    text = screen.transcript.turns[-1].query_one(AnswerText)
    await pilot.mouse_down(text, offset=(4, 0))
    await pilot.hover(text, offset=(10, 0))
    await pilot.mouse_up(text, offset=(10, 0))
    await until(pilot, lambda: bool(screen.get_selected_text()))
    return str(screen.get_selected_text())


async def test_ctrl_c_copies_what_is_selected_and_does_not_begin_to_quit(copied: list[str]) -> None:
    async with chat_app(LONG).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        await shown(pilot, "one two three four five")
        text = await select(pilot)
        press(pilot, "ctrl+c")
        await shown(pilot, f"Copied {len(text)} characters.", without=["again quits"])
        assert copied == [text] and not screen_of(pilot).selections
        press(pilot, "ctrl+c")
        await shown(pilot, "Ctrl+C again quits.")
        assert copied == [text], "once only"


async def test_ctrl_c_copies_while_an_answer_is_written_and_keeps_the_draft(copied: list[str]) -> None:
    # So slowly that the line which is selected does not leave the screen meanwhile.
    async with chat_app(Script(answer="word " * 5000, token_delay_s=0.3)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await shown(pilot, "word word word word")
        prompt_of(pilot).text = "draft"
        text = await select(pilot)
        press(pilot, "ctrl+c")
        await until(pilot, lambda: copied == [text])
        assert screen_of(pilot).session.busy and prompt_of(pilot).text == "draft"


async def test_escape_lets_go_of_the_selection_before_it_does_anything_else(copied: list[str]) -> None:
    async with chat_app(LONG).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        await shown(pilot, "one two three four five")
        await select(pilot)
        press(pilot, "escape")
        await until(pilot, lambda: not screen_of(pilot).selections)
        press(pilot, "escape")
        await shown(pilot, "Esc again edits the last question.")
        assert copied == []


async def test_a_chosen_turn_gives_way_to_what_is_selected(copied: list[str]) -> None:
    async with chat_app(LONG).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        press(pilot, "ctrl+up")
        await shown(pilot, "Esc back")
        text = await select(pilot)
        press(pilot, "ctrl+c")
        await until(pilot, lambda: copied == [text])


async def test_what_is_selected_in_the_prompt_is_copied_in_the_same_way(copied: list[str]) -> None:
    async with chat_app(LONG).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).text = "some words"
        prompt_of(pilot).select_all()
        press(pilot, "ctrl+c")
        await until(pilot, lambda: copied == ["some words"])
        assert prompt_of(pilot).text == "some words"
