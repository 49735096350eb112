"""A long chat: few are mounted, all can be reached, and the view never jumps on the way."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.widgets.transcript import MOST_MOUNTED
from ebbtide.app.widgets.turns import AnswerTurn, Entry, UserTurn
from tests.helpers.chat_host import drawn, settled, until
from tests.helpers.transcript_host import Host, mounted, shows

TURNS = 100


def long_chat() -> list[Entry]:
    turns: list[Entry] = []
    for number in range(TURNS // 2):
        turns.append(UserTurn(f"question {number}"))
        turns.append(AnswerTurn(AnswerContent.of(f"answer {number}\n\n```python\nx = {number}\n```")))
    return turns


async def opened(pilot: Pilot[None], host: Host) -> None:
    await host.transcript.show(long_chat())
    await settled(pilot)
    await until(pilot, lambda: host.transcript.at_end and f"x = {TURNS // 2 - 1}" in drawn(host))


async def test_every_turn_can_be_reached_and_few_are_mounted() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        while not shows(host, "question 0"):
            top = mounted(host)[0]
            host.transcript.scroll_home(animate=False)
            await until(pilot, lambda: mounted(host)[0] is not top or shows(host, "question 0"))  # noqa: B023
            assert len(mounted(host)) <= MOST_MOUNTED
            await settled(pilot)
        while not host.transcript.at_end:
            host.transcript.scroll_end(animate=False)
            await settled(pilot)
            assert len(mounted(host)) <= MOST_MOUNTED
        assert shows(host, f"answer {TURNS // 2 - 1}")


@pytest.mark.parametrize("step", [-1, 1])
async def test_line_by_line_the_view_moves_by_one_line(step: int) -> None:
    """Over a place where turns are mounted and let go, upwards or downwards."""
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        if step > 0:
            await host.transcript.to_start()
            await settled(pilot)
        view = host.transcript.container_size.height
        start = view + 5 if step < 0 else host.transcript.max_scroll_y - view - 5
        host.transcript.scroll_to(y=start, animate=False, immediate=True, force=True)
        await settled(pilot)
        window = mounted(host)
        for _ in range(15):
            before = host.lines()
            host.transcript.scroll_relative(y=step, animate=False, immediate=True)
            await until(pilot, lambda: host.lines() != before)  # noqa: B023
            await settled(pilot)
            after = host.lines()
            assert (before[1:-2] == after[2:-1]) if step < 0 else (before[2:-1] == after[1:-2])
        assert mounted(host) != window


async def test_a_new_question_brings_the_end_back() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        await host.transcript.to_start()
        await until(pilot, lambda: "question 0" in drawn(host))
        await host.transcript.add(AnswerTurn(AnswerContent.of("unseen")))
        await settled(pilot)
        assert "question 0" in drawn(host)
        await host.transcript.add(UserTurn("the newest question"))
        await until(pilot, lambda: "the newest question" in drawn(host) and "unseen" in drawn(host))
        assert len(mounted(host)) <= MOST_MOUNTED


async def test_a_turn_far_away_is_revealed() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        await host.transcript.reveal(host.transcript.turns[20])
        await until(pilot, lambda: "question 10" in drawn(host))
        assert len(mounted(host)) <= MOST_MOUNTED


async def test_cutting_drops_a_turn_and_what_follows() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        await host.transcript.cut(host.transcript.turns[11])
        await until(pilot, lambda: "question 5" in drawn(host))
        assert len(host.transcript.turns) == 11 and len(mounted(host)) == 11


async def test_an_answer_that_streams_on_out_of_view_is_whole_when_it_is_seen_again() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host)
        content = AnswerContent()
        await host.transcript.add(UserTurn("go"))
        await host.transcript.add(AnswerTurn(content))
        await host.transcript.to_start()
        content.push("one\n\n**two**\n\nthree")
        await host.transcript.draw()
        content.end()
        await host.transcript.to_end()
        await until(pilot, lambda: all(word in drawn(host) for word in ("one", "two", "three")))
        assert "**" not in drawn(host)
