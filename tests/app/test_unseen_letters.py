"""What is typed reaches the prompt and lists whole, also what no terminal shows as a letter of its own."""

import sys

import pytest
from textual.events import Key
from textual.widgets import Input

from ebbtide.app.screens.picker import Picker
from ebbtide.app.widgets.unseen_letters import unseen_letter
from tests.helpers.chat_host import chat_app, press, prompt_of, ready, until, written
from tests.helpers.fake_engine import Script

PERSIAN = "می‌خواهم"  # with a zero-width non-joiner
FAMILY = "👨‍👩‍👧"  # three people and two joiners
SPACES = "a\u00a0b\u3000c\u202fd"
DIRECTIONS = "a\u200eb\u200fc"
PRIVATE = "\ue0b0x"


@pytest.mark.parametrize("text", [PERSIAN, FAMILY, SPACES, DIRECTIONS, PRIVATE])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
async def test_the_prompt_and_a_list_take_what_is_typed(text: str) -> None:
    from ebbtide.app.paste_parser import PasteParser

    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        for message in PasteParser().feed(text):
            pilot.app.post_message(message)
        await written(pilot, text)
        prompt_of(pilot).text = ""
        press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        line = pilot.app.screen.query_one(Input)
        for message in PasteParser().feed(text):
            pilot.app.post_message(message)
        await until(pilot, lambda: line.value == text)


@pytest.mark.parametrize(
    ("key", "character"),
    [("a", "a"), ("enter", "\r"), ("ctrl+x", "\x18"), ("f1", None), ("<ignore>", "\x1b[99~"), ("x", "\x9b")],
)
def test_other_keys_are_left_to_textual(key: str, character: str | None) -> None:
    assert unseen_letter(Key(key, character)) == ""
