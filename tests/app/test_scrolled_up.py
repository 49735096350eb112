"""While the reader has scrolled up: a mark that there is more, the way back, and remarks that are seen."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.widgets.more_below import MORE, MoreBelow
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    press,
    prompt_of,
    ready,
    screen_of,
    shown,
    transcript_of,
    until,
)
from tests.helpers.fake_engine import Script

LONG = Script(answer="\n\n".join(f"paragraph {number}" for number in range(60)))
ENDLESS = Script(answer="word\n\n " * 3000, token_delay_s=0.02)


async def scrolled_up(pilot: Pilot[None]) -> None:
    """A long answer, of which the reader has scrolled to an earlier part."""
    await ready(pilot)
    await answered(pilot, "go")
    await shown(pilot, "paragraph 59", without=[MORE])
    press(pilot, "pageup")
    await shown(pilot, MORE, without=["paragraph 59"])


@pytest.mark.parametrize("key", ["end", "ctrl+end"])
async def test_a_mark_says_that_there_is_more_and_end_goes_there(key: str) -> None:
    async with chat_app(LONG).run_test() as pilot:
        await scrolled_up(pilot)
        press(pilot, key)
        await shown(pilot, "paragraph 59", without=[MORE])


async def test_the_mark_names_the_key_that_goes_there_and_a_click_does_it() -> None:
    async with chat_app(LONG).run_test() as pilot:
        await scrolled_up(pilot)
        await shown(pilot, f"{MORE} · End", without=["Ctrl+End"])
        press(pilot, "x")
        await shown(pilot, f"{MORE} · Ctrl+End")
        press(pilot, "backspace")
        await shown(pilot, f"{MORE} · End", without=["Ctrl+End"])
        assert await pilot.click(MoreBelow)
        await shown(pilot, "paragraph 59", without=[MORE])


async def test_home_goes_to_the_start_and_both_keep_to_the_line_where_something_is_written() -> None:
    async with chat_app(LONG).run_test() as pilot:
        await scrolled_up(pilot)
        press(pilot, "home")
        await shown(pilot, "paragraph 0", MORE)
        press(pilot, "a", "b", "home", "c", "end", "d")
        await until(pilot, lambda: prompt_of(pilot).text == "cabd")
        assert not transcript_of(pilot).follows


async def test_end_follows_the_answer_again() -> None:
    async with chat_app(ENDLESS).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        transcript = transcript_of(pilot)
        await until(pilot, lambda: transcript.max_scroll_y > 20)
        press(pilot, "pageup")
        await shown(pilot, MORE)
        press(pilot, "end")
        await shown(pilot, "word", without=[MORE])
        height = transcript.max_scroll_y
        await until(pilot, lambda: transcript.max_scroll_y > height + 10)
        await until(pilot, lambda: transcript.at_end)
        assert transcript.follows


async def test_the_end_is_followed_again_when_no_turn_is_chosen_any_more() -> None:
    async with chat_app(LONG).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "go")
        await shown(pilot, "paragraph 59")
        press(pilot, "ctrl+up")
        await shown(pilot, "Esc back")
        press(pilot, "up")
        await shown(pilot, MORE, "turn 1/2", without=["paragraph 59"])
        press(pilot, "escape")
        await shown(pilot, "paragraph 59", without=[MORE, "Esc back"])


async def test_a_turn_that_cannot_be_changed_now_says_so_and_stays_chosen() -> None:
    async with chat_app(ENDLESS).run_test(size=(100, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: transcript_of(pilot).max_scroll_y > 20)
        press(pilot, "ctrl+up")
        await shown(pilot, "Esc back", MORE)
        press(pilot, "e")
        await shown(pilot, "An answer is being written", "Esc back")
        assert screen_of(pilot).session.busy


@pytest.mark.parametrize(("typed", "said"), [("/nosuch", "There is no command /nosuch"), ("/trim", "oldest")])
async def test_remarks_are_seen_where_the_reader_is(typed: str, said: str) -> None:
    async with chat_app(LONG).run_test(size=(100, 24)) as pilot:
        await scrolled_up(pilot)
        await ask(pilot, typed)
        await shown(pilot, said, MORE)
