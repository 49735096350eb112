"""Which chat this is, and how the others are reached: Ctrl+O, the list, a title of one's own."""

import pytest
from textual.widgets import Input

from ebbtide.app.screens.picker import Picker
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.store import memory_store
from ebbtide.app.widgets.status_line import StatusLine
from tests.app.test_chat_kept import app_with, contents
from tests.helpers.chat_host import (
    answered,
    ask,
    drawn,
    press,
    prompt_of,
    ready,
    screen_of,
    settled,
    shown,
    until,
    written,
)
from tests.helpers.fake_engine import Script


async def test_without_a_last_chat_ctrl_o_opens_the_list() -> None:
    store = memory_store()
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "what is ebb?")
        await ask(pilot, "/new")
        await until(pilot, lambda: contents(pilot) == [])
        press(pilot, "ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "Chats", "what is ebb?")
        press(pilot, "enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Picker))
        await until(pilot, lambda: len(contents(pilot)) == 2)
        press(pilot, "ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "Chats", "what is ebb?")


async def test_without_any_chat_ctrl_o_says_so() -> None:
    async with app_with(memory_store()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "ctrl+o")
        await shown(pilot, "There are no chats yet.")


async def test_a_search_without_hits_and_a_list_without_matches_say_so() -> None:
    async with app_with(memory_store()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "what is ebb?")
        await ask(pilot, "/search")
        await shown(pilot, "Search all chats", without=["No chat"])
        press(pilot, *"xyz")
        await shown(pilot, "No chat has these words.")
        press(pilot, "down", "pagedown", "enter")
        await settled(pilot)
        assert isinstance(pilot.app.screen, Picker), "there is nothing to take"
        press(pilot, "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Picker))
        await ask(pilot, "/chats")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        press(pilot, *"xyz")
        await shown(pilot, "Nothing here has these words.")


async def test_what_was_found_is_in_view_with_the_beginning_of_its_title() -> None:
    store = memory_store()
    title = "How to write a parser for dates and times in Python"
    chat = store.create_chat(title=title)
    store.add_message(chat.id, None, "user", "a long way of saying that the needle is in the haystack")
    async with app_with(store).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "/search needle")
        await shown(pilot, "needle", "How to write a parser f… ·")
        pilot.app.screen.query_one(Input).value = "dates"
        await shown(pilot, title, without=["needle"])


async def test_a_note_about_one_chat_goes_with_it() -> None:
    store = memory_store()
    async with app_with(store).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "what is ebb?")
        first = screen_of(pilot).session.keeper.chat
        assert first is not None
        screen = screen_of(pilot)
        for change in (screen.changes.new, lambda: screen.changes.open_hit(first.id)):
            note = screen.note("This is a new chat; the old one stays as it was.", passing=True)
            await until(pilot, lambda note=note: note.is_attached)  # type: ignore[misc]
            assert "This is a new chat" in screen.query_one(StatusLine).hint
            await change()
            await settled(pilot)
            assert "This is a new chat" not in drawn(pilot.app)


async def test_numbers_of_messages_are_in_words_that_fit() -> None:
    async with app_with(memory_store()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "/trim 1")
        await shown(pilot, "The oldest message is not sent")
        await ask(pilot, "/untrim")
        await shown(pilot, "(1 was left out)")


async def test_a_long_queue_tells_how_many_it_does_not_list() -> None:
    endless = Script(answer="word " * 5000, token_delay_s=0.02)
    async with app_with(memory_store(), endless).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: screen_of(pilot).session.answer.text != "")
        for number in range(4):
            await ask(pilot, f"question {number}")
            await written(pilot, "")
        await shown(pilot, "4 queued", "4. question 3", without=["more"])
        await ask(pilot, "question 4")
        await shown(pilot, "5 queued", "3. question 2", "and 2 more", without=["4. question 3"])


async def test_the_help_says_how_it_closes_and_loses_no_text() -> None:
    async with app_with(memory_store()).run_test(size=(100, 50)) as pilot:
        await ready(pilot)
        press(pilot, "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextPage))
        await shown(pilot, "Esc closes", "F4", "Mouse")
        press(pilot, *"a question", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, TextPage))
        await written(pilot, "a question")
        prompt_of(pilot).text = ""
        press(pilot, "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextPage))
        press(pilot, "q")
        await until(pilot, lambda: not isinstance(pilot.app.screen, TextPage))
        assert prompt_of(pilot).text == ""


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40)])
@pytest.mark.parametrize(("key", "box"), [("f1", "#page"), ("ctrl+p", "#picker")])
async def test_what_is_over_the_chat_is_not_drawn_over_the_edge_of_the_prompt(
    size: tuple[int, int], key: str, box: str
) -> None:
    async with app_with(memory_store()).run_test(size=size) as pilot:
        await ready(pilot)
        prompt = prompt_of(pilot).region
        press(pilot, key)
        await until(pilot, lambda: bool(pilot.app.screen.query(box)))
        await shown(pilot, "Keys" if key == "f1" else "/new")
        await settled(pilot)
        page = pilot.app.screen.query_one(box).region
        assert page.bottom <= prompt.y or size[1] < 19, "above the prompt, where there is room"
