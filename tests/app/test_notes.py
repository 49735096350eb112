"""Remarks of the program in the transcript: they look like no turn, and do not pile up."""

import pytest

from ebbtide.app.widgets.turns import AnswerTurn, Entry, Note, UserTurn
from tests.helpers.chat_host import drawn, settled, until
from tests.helpers.transcript_host import Host


def texts(host: Host) -> list[str]:
    return [turn.text for turn in host.transcript.turns if isinstance(turn, Note | UserTurn)]


async def add(host: Host, *turns: Entry) -> None:
    for turn in turns:
        await host.transcript.add(turn)


async def test_a_note_has_a_sign_of_its_own_and_no_bar() -> None:
    host = Host()
    async with host.run_test(size=(40, 20)) as pilot:
        await add(host, UserTurn("a question"), Note("a remark\nof two lines"), Note("a fault", "error"))
        await settled(pilot)
        lines = [line.rstrip() for line in drawn(host).splitlines() if line.strip()]
        assert [line.strip() for line in lines] == ["▌ a question", "· a remark", "of two lines", "✗ a fault"]
        assert lines[1].index("a remark") == lines[2].index("of two lines")


@pytest.mark.parametrize("follower", [UserTurn("next"), Note("next"), Note("next", "error", passing=True)])
async def test_a_passing_note_makes_way(follower: Entry) -> None:
    host = Host()
    async with host.run_test(size=(40, 20)) as pilot:
        await add(host, UserTurn("first"), Note("lasting"), Note("passing", passing=True))
        await until(pilot, lambda: "passing" in drawn(host))
        await add(host, follower.fresh())
        await until(pilot, lambda: "next" in drawn(host))
        assert texts(host) == ["first", "lasting", "next"] and "passing" not in drawn(host)


async def test_the_same_is_not_said_twice_in_a_row() -> None:
    host = Host()
    async with host.run_test(size=(40, 20)):
        await add(host, UserTurn("q"), Note("one"), Note("two"), Note("one"), Note("one", "error"))
        assert texts(host) == ["q", "one", "two", "one"]
        await add(host, UserTurn("r"), Note("one"))
        assert texts(host)[-2:] == ["r", "one"]


async def test_an_answer_goes_on_above_many_notes() -> None:
    host = Host()
    async with host.run_test(size=(40, 20)) as pilot:
        answer = AnswerTurn()
        await add(host, UserTurn("q"), answer, *(Note(f"remark {number}") for number in range(5)))
        answer.push("all of it")
        await host.transcript.draw()
        await until(pilot, lambda: "all of it" in drawn(host))
