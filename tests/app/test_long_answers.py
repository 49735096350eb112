"""A chat of long answers: what is mounted stays bounded by its weight, and all of it can be reached."""

import pytest
from textual.pilot import Pilot

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.widgets.transcript import MOST_MOUNTED, STEP
from ebbtide.app.widgets.turns import CHARACTERS_OF_ONE, AnswerTurn, Entry, UserTurn
from tests.helpers.chat_host import settled, until
from tests.helpers.transcript_host import Host, mounted, shows

PARAGRAPH = "Some words of a paragraph that is neither short nor long.\n\n"


def chat(*paragraphs: int) -> list[Entry]:
    """A question and an answer of so many paragraphs each."""
    turns: list[Entry] = []
    for number, count in enumerate(paragraphs):
        text = f"answer {number} begins\n\n" + PARAGRAPH * count + f"answer {number} ends"
        turns += [UserTurn(f"question {number}"), AnswerTurn(AnswerContent.of(text))]
    return turns


def weight(host: Host) -> int:
    return sum(turn.weight for turn in mounted(host))


async def opened(pilot: Pilot[None], host: Host, turns: list[Entry]) -> None:
    await host.transcript.show(turns)
    await settled(pilot)
    await until(pilot, lambda: host.transcript.at_end)


def test_a_long_answer_weighs_as_several_turns() -> None:
    assert AnswerTurn(AnswerContent.of("short")).weight == UserTurn("short").weight == 1
    assert AnswerTurn(AnswerContent.of("x" * CHARACTERS_OF_ONE * 7)).weight == 8


@pytest.mark.parametrize("heaviest", [40, 700], ids=["all alike", "one above the limit"])
async def test_all_can_be_reached_and_little_is_mounted(heaviest: int) -> None:
    turns = chat(40, 40, 40, heaviest, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40)
    most = max(MOST_MOUNTED, max(turn.weight for turn in turns)) + STEP
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        await opened(pilot, host, turns)
        while not shows(host, "question 0"):
            top = mounted(host)[0]
            host.transcript.scroll_home(animate=False)
            await until(pilot, lambda: mounted(host)[0] is not top or shows(host, "question 0"))  # noqa: B023
            assert weight(host) <= most
            await settled(pilot)
        while not host.transcript.at_end:
            host.transcript.scroll_end(animate=False)
            await settled(pilot)
            assert weight(host) <= most
        assert shows(host, "answer 13 ends")


async def test_while_answers_stream_in_the_oldest_are_let_go() -> None:
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        for number, turn in enumerate(chat(*[40] * 12)):
            await host.transcript.add(turn)
            await host.transcript.draw()
            await settled(pilot)
            assert weight(host) <= MOST_MOUNTED + turn.weight, number
        assert host.transcript.at_end and shows(host, "answer 11 ends")
        assert len(mounted(host)) < len(host.transcript.turns)
