"""The line at the top of the view stays there when the width changes."""

import re

import pytest
from textual.pilot import Pilot

from ebbtide.app.widgets.more_below import MORE
from tests.helpers.chat_host import (
    answered,
    chat_app,
    drawn,
    press,
    ready,
    screen_of,
    settled,
    shown,
    transcript_of,
    until,
)
from tests.helpers.fake_engine import Script

SENTENCE = "word{0}a word{0}b word{0}c word{0}d word{0}e word{0}f word{0}g word{0}h word{0}i word{0}j."
PARAGRAPHS = "\n\n".join(SENTENCE.format(number) for number in range(100, 200))
CODE = "\n".join(f"line_{number} = " + "x + " * 30 + f"end_{number}" for number in range(100, 160))
TABLE = "| a | b |\n|---|---|\n" + "\n".join(f"| cell{n}a | cell{n}b {'w ' * 20}|" for n in range(100, 150))
DOCUMENTS = {
    "paragraphs": PARAGRAPHS,
    "code": f"# Title\n\n```python\n{CODE}\n```\n\nThe end.",
    "list": "\n".join(f"- {SENTENCE.format(number)}" for number in range(100, 160)),
    "table": TABLE,
    "mixed": f"{PARAGRAPHS}\n\n---\n\n```sh\n{CODE}\n```\n\n{TABLE}",
}


def number_at_top(pilot: Pilot[None]) -> int:
    """The first number in the view."""
    found = re.search(r"[1-9][0-9]{2}", "\n".join(drawn(pilot.app).split("\n")[1:14]))
    return int(found.group()) if found else -1


async def is_near(pilot: Pilot[None], number: int) -> None:
    """Until the top of the view is at that number again, or all of the chat is in view."""
    await until(
        pilot,
        lambda: abs(number_at_top(pilot) - number) <= 1 or not transcript_of(pilot).max_scroll_y,
    )


async def resize(pilot: Pilot[None], columns: int, rows: int = 24) -> None:
    await pilot.resize_terminal(columns, rows)
    await until(pilot, lambda: screen_of(pilot).size.width == columns)
    await settled(pilot)


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_the_place_is_kept_from_narrow_to_wide_and_back(name: str) -> None:
    async with chat_app(Script(answer=DOCUMENTS[name])).run_test(size=(40, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        await settled(pilot)
        await transcript_of(pilot).to_start()
        await settled(pilot)
        for _ in range(5):
            press(pilot, "pagedown")
            await settled(pilot)
        await shown(pilot, MORE)
        before = number_at_top(pilot)
        await resize(pilot, 200)
        await is_near(pilot, before)
        await resize(pilot, 90)
        await is_near(pilot, before)
        await resize(pilot, 40)
        await until(pilot, lambda: number_at_top(pilot) == before)
        assert not transcript_of(pilot).follows


async def test_a_place_that_needs_no_scrolling_when_wide_is_there_again_when_narrow() -> None:
    text = "\n\n".join(SENTENCE.format(number) for number in range(100, 108))
    async with chat_app(Script(answer=text)).run_test(size=(40, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        await settled(pilot)
        press(pilot, "pageup")
        await shown(pilot, MORE)
        await settled(pilot)
        before = number_at_top(pilot)
        await resize(pilot, 200)
        await shown(pilot, "word100a", "word107j")
        await resize(pilot, 40)
        await until(pilot, lambda: number_at_top(pilot) == before)


async def test_who_is_at_the_end_stays_there() -> None:
    async with chat_app(Script(answer=PARAGRAPHS)).run_test(size=(40, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        await shown(pilot, "word199j", without=[MORE])
        for columns in (200, 40, 80):
            await resize(pilot, columns)
            await shown(pilot, "word199j", without=[MORE])


async def test_the_panel_beside_the_chat_takes_no_place_away() -> None:
    async with chat_app(Script(answer=PARAGRAPHS)).run_test(size=(120, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "a question")
        await settled(pilot)
        press(pilot, "pageup")
        await settled(pilot)
        press(pilot, "pageup")
        await shown(pilot, MORE)
        await settled(pilot)
        before, width = number_at_top(pilot), transcript_of(pilot).size.width
        press(pilot, "f2")
        await until(pilot, lambda: transcript_of(pilot).size.width < width)
        await settled(pilot)
        await is_near(pilot, before)
