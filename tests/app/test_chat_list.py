"""Which chat this is, and how the others are reached: Ctrl+O, the list, a title of one's own."""

from ebbtide.app.screens.picker import Picker
from ebbtide.app.store import memory_store
from tests.app.test_chat_kept import app_with, contents
from tests.helpers.chat_host import answered, ask, press, ready, shown, until


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
