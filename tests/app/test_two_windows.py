"""One chat in two windows: what one writes is seen in the other, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.conversation import Conversation, Message
from ebbtide.app.store import ChatStore, open_store
from tests.app.test_chat_kept import app_with, contents
from tests.helpers.chat_host import answered, ask, press, ready, shown, until, written
from tests.helpers.fake_engine import Script


class OtherWindow:
    """Writes an answer, as another ebbtide does."""

    def __init__(self, store: ChatStore) -> None:
        self.keeper = ChatKeeper(store, now=self._later)
        self.conversation: Conversation = self.keeper.begin()
        self.content = AnswerContent()
        self._now = 0.0
        self.question: Message = self.conversation.add("user", "what is ebb?")
        self.keeper.asked(self.question)
        self.keeper.answer_begins(self.question)

    def _later(self) -> float:
        self._now = getattr(self, "_now", 0.0) + 1.0
        return self._now

    @property
    def chat_id(self) -> str:
        assert self.keeper.chat is not None
        return self.keeper.chat.id

    def writes(self, text: str) -> None:
        self.content.push(text)
        self.keeper.answer_grew(self.content)

    def ends(self) -> Message:
        self.content.end()
        answer = self.conversation.add("assistant", self.content.answer)
        self.keeper.answer_ended(answer, self.content, "complete", None)
        return answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    with open_store(tmp_path / "chats.db") as opened:
        yield opened


@pytest.fixture
def other(store: ChatStore, tmp_path: Path) -> Iterator[OtherWindow]:
    with open_store(tmp_path / "chats.db") as opened:
        yield OtherWindow(opened)


async def test_an_answer_of_another_window_grows_and_ends_here_too(
    store: ChatStore, other: OtherWindow
) -> None:
    async with app_with(store, tools=ChatTools(chat_id=other.chat_id)).run_test() as pilot:
        await shown(pilot, "what is ebb?", "being written in another window")
        other.writes("The tide ")
        await shown(pilot, "The tide", "being written in another window", without=["cut off"])
        other.writes("goes **out**.")
        await shown(pilot, "The tide goes out.", "being written in another window")
        other.ends()
        await shown(pilot, "The tide goes out.", without=["another window", "cut off"])
        await answered(pilot, "and then?")
        assert contents(pilot)[1] == "The tide goes **out**."


async def test_thinking_of_another_window_is_folded(store: ChatStore, other: OtherWindow) -> None:
    async with app_with(store, tools=ChatTools(chat_id=other.chat_id)).run_test() as pilot:
        await shown(pilot, "being written in another window")
        other.writes("<think>hm hm")
        await shown(pilot, "▸ thought", without=["hm hm"])
        other.writes("</think>\n\nYes.")
        await shown(pilot, "▸ thought", "Yes.", without=["hm hm"])
        other.ends()
        await shown(pilot, "Yes.", without=["another window"])


async def test_a_question_waits_for_the_answer_of_the_other_window(
    store: ChatStore, other: OtherWindow
) -> None:
    async with app_with(store, tools=ChatTools(chat_id=other.chat_id)).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "being written in another window")
        await ask(pilot, "and the flood?")
        await shown(pilot, "1. and the flood?", "waits for the answer in the other window")
        other.writes("It goes out.")
        answer = other.ends()
        await shown(pilot, "You said: and the flood?", "It goes out.", without=["1. and"])
    theirs = other.conversation.add("user", "something else")
    other.keeper.asked(theirs)
    tree = store.whole_tree(other.chat_id)
    behind = [message.content for message in tree if message.parent_id == answer.key]
    assert behind == ["and the flood?", "something else"], "each window has its own branch"
    assert [message.content for message in tree][1] == "It goes out."


async def test_a_question_can_be_sent_at_once_and_nothing_is_lost(
    store: ChatStore, other: OtherWindow, tmp_path: Path
) -> None:
    other.writes("It goes")
    record = tmp_path / "commands"
    script = Script(record=str(record))
    async with app_with(store, script, ChatTools(chat_id=other.chat_id)).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "It goes", "being written in another window")
        await ask(pilot, "quick")
        await shown(pilot, "1. quick")
        press(pilot, "enter")
        await shown(pilot, "You said: quick")
        other.writes(" out.")
        other.ends()
        await shown(pilot, "It goes out.", without=["another window"])
    path = store.path(store.get_chat(other.chat_id).head_id)
    assert [message.content for message in path] == [
        "what is ebb?",
        "It goes out.",
        "quick",
        "You said: quick",
    ]


async def test_an_answer_that_is_taken_back_there_is_gone_here(store: ChatStore, other: OtherWindow) -> None:
    async with app_with(store, tools=ChatTools(chat_id=other.chat_id)).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "what is ebb?", "being written in another window")
        await ask(pilot, "mine")
        await shown(pilot, "1. mine")
        press(pilot, *"half", "space", *"a", "space", *"th")
        await written(pilot, "half a th")
        other.keeper.answer_dropped()
        other.keeper.withdrew(other.question)
        await until(pilot, lambda: contents(pilot) == [])
        await shown(pilot, "1 held", "1. mine", "half a th")
