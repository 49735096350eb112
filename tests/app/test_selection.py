"""Text that is selected with the mouse: Ctrl+C copies it, Escape lets go of it."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.screens import chat
from ebbtide.app.widgets.answer_text import AnswerText
from ebbtide.app.widgets.turns import Note
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    press,
    prompt_of,
    ready,
    screen_of,
    settled,
    shown,
    until,
)
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


LINES = Script(answer="first\n\nsecond words here\n\n```python\nx = 1\n\ny = 2\n```\n\nlast")
"""Rows: first, empty, second, empty, label, x, empty, y, empty, last, empty."""


async def drag(pilot: Pilot[None], start: tuple[int, int], end: tuple[int, int]) -> str:
    """From one cell of the last answer to another one, both counted from its first letter."""
    text = screen_of(pilot).transcript.turns[-1].query_one(AnswerText)
    (left, top), (right, bottom) = [
        (text.content_region.x + x, text.content_region.y + y) for x, y in (start, end)
    ]
    await pilot.mouse_down(offset=(left, top))
    await pilot.hover(offset=(right, bottom))
    await pilot.mouse_up(offset=(right, bottom))
    await pilot.pause()
    return str(screen_of(pilot).get_selected_text() or "")


@pytest.mark.parametrize(
    ("start", "end", "copied_text"),
    [
        ((0, 2), (30, 3), "second words here"),
        ((0, 2), (0, 1), "\ns"),
        ((5, 1), (5, 2), "\nsecond"),
        ((-2, 2), (5, 2), "second"),
        ((-3, 2), (5, 2), "second"),
        ((7, 2), (76, 2), "words here"),
        ((0, 5), (40, 7), "x = 1\n\ny = 2"),
        ((1, 5), (40, 8), "x = 1\n\ny = 2"),
        ((3, 4), (40, 7), "x = 1\n\ny = 2"),
        ((0, 6), (40, 7), "\ny = 2"),
    ],
)
async def test_a_selection_begins_and_ends_where_the_mouse_is(
    start: tuple[int, int], end: tuple[int, int], copied_text: str
) -> None:
    """On empty rows, in the margins, on the label of code."""
    async with chat_app(LINES).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        await shown(pilot, "last")
        assert await drag(pilot, start, end) == copied_text


async def test_an_empty_line_of_a_question_is_a_place_in_it() -> None:
    async with chat_app(LONG).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "one\n\ntwo\nthree")
        text = screen_of(pilot).transcript.turns[-2].query_one(".text")
        for start, end, selected in (((0, 0), (5, 1), "one"), ((2, 1), (2, 2), "\ntwo")):
            await pilot.mouse_down(text, offset=start)
            await pilot.hover(text, offset=end)
            await pilot.mouse_up(text, offset=end)
            await pilot.pause()
            assert screen_of(pilot).get_selected_text() == selected


@pytest.mark.parametrize(
    ("times", "at", "selected"),
    [
        (2, (9, 2), "words"),
        (2, (60, 2), ""),
        (2, (3, 1), ""),
        (3, (9, 2), "second words here"),
        (2, (1, 5), "x"),
        (3, (3, 7), "y = 2"),
    ],
)
async def test_two_clicks_select_a_word_and_three_a_line(
    times: int, at: tuple[int, int], selected: str
) -> None:
    async with chat_app(LINES).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        await shown(pilot, "last")
        text = screen_of(pilot).transcript.turns[-1].query_one(AnswerText)
        await pilot.click(text, offset=at, times=times)
        await pilot.pause()
        assert (screen_of(pilot).get_selected_text() or "") == selected


async def test_two_clicks_select_a_word_of_a_question() -> None:
    async with chat_app(LONG).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "one\n\ntwo three")
        text = screen_of(pilot).transcript.turns[-2].query_one(".text")
        for times, selected in ((2, "three"), (3, "two three")):
            await pilot.click(text, offset=(6, 2), times=times)
            await pilot.pause()
            assert screen_of(pilot).get_selected_text() == selected
            await pilot.click(text, offset=(60, 2))


async def test_of_a_note_the_words_are_copied_without_its_sign() -> None:
    async with chat_app(LONG).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        screen_of(pilot).note("a remark")
        await shown(pilot, "a remark")
        transcript = screen_of(pilot).transcript
        await until(pilot, lambda: isinstance(transcript.turns[-1], Note))
        await settled(pilot)
        note = transcript.turns[-1]
        for x in (0, 2):
            await pilot.mouse_down(note, offset=(x, 0))
            await pilot.hover(note, offset=(40, 0))
            await pilot.mouse_up(note, offset=(40, 0))
            await pilot.pause()
            assert screen_of(pilot).get_selected_text() == "a remark"


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
