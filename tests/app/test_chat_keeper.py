"""The keeper alone: what is saved when, and that a store that fails does not end a chat."""

from pathlib import Path

import pytest

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.conversation import Conversation
from ebbtide.app.kept_chat import KeptChat
from ebbtide.app.store import NEW_CHAT, ChatStore, memory_store


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> ChatStore:
    return memory_store()


def begun(keeper: ChatKeeper) -> Conversation:
    """A chat in which an answer is being written."""
    conversation = keeper.begin()
    keeper.asked(question := conversation.add("user", "q"))
    keeper.answer_begins(question)
    return conversation


def last(store: ChatStore) -> str:
    record = store.whole_tree(store.list_chats()[0].id)[-1]
    return f"{record.state}|{record.thinking}|{record.content}"


def test_a_growing_answer_is_saved_now_and_then(store: ChatStore) -> None:
    clock, content = Clock(), AnswerContent()
    keeper = ChatKeeper(store, clock)
    begun(keeper)
    content.push("one ")
    keeper.answer_grew(content)
    assert last(store) == "partial||"
    clock.now = 1.0
    content.push("two ")
    keeper.answer_grew(content)
    assert last(store) == "partial||one two "
    clock.now = 2.0
    content.push("three")
    keeper.answer_grew(content)
    assert last(store) == "partial||one two three"


def test_what_was_saved_as_answer_becomes_thinking(store: ChatStore) -> None:
    clock, content = Clock(), AnswerContent()
    keeper = ChatKeeper(store, clock)
    begun(keeper)
    for now, text in ((1.0, "I think"), (2.0, " so</think>Yes"), (3.0, " indeed")):
        clock.now = now
        content.push(text)
        keeper.answer_grew(content)
    assert last(store) == "partial|I think so|Yes indeed"


def test_an_answer_that_never_came_leaves_the_question(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    keeper.answer_dropped()
    assert last(store) == "complete||q"
    assert conversation.leaf is not None
    keeper.withdrew(conversation.leaf)
    assert store.list_chats() == [], "a chat of nothing is none"


def test_a_chat_with_a_name_of_its_own_stays_without_its_question(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    keeper.rename("mine")
    keeper.answer_dropped()
    assert conversation.leaf is not None
    keeper.withdrew(conversation.leaf)
    assert [chat.title for chat in store.list_chats()] == ["mine"]


def test_a_name_that_is_the_question_is_a_name_all_the_same(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    keeper.rename("q")
    keeper.answer_dropped()
    assert conversation.leaf is not None
    keeper.withdrew(conversation.leaf)
    assert [chat.title for chat in store.list_chats()] == ["q"]


def test_a_chat_whose_first_question_was_edited_goes_with_the_last_one(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    keeper.answer_dropped()
    first = conversation.leaf
    assert first is not None
    conversation.leaf = None
    keeper.asked(second := conversation.add("user", "another wording"))
    keeper.withdrew(second)
    keeper.withdrew(first)
    assert store.list_chats() == [], "named after the first question, whatever was asked last"


def test_queued_questions_go_with_the_chat_and_stay_when_it_is_none(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    keeper.load_queue()
    conversation = begun(keeper)
    keeper.save_queue(["next", "last"])
    assert keeper.chat is not None and store.load_queue(keeper.chat.id) == ["next", "last"]
    keeper.answer_dropped()
    assert conversation.leaf is not None
    keeper.withdrew(conversation.leaf)
    assert keeper.chat is None and ChatKeeper(store).load_queue() == ["next", "last"]
    keeper.asked(conversation.add("user", "next"))
    assert keeper.chat is not None
    assert store.load_queue(keeper.chat.id) == ["next", "last"] and store.load_queue(NEW_CHAT) == []


def test_a_queue_that_has_not_changed_does_not_overwrite_that_of_another_app(store: ChatStore) -> None:
    ours = ChatKeeper(store)
    begun(ours)
    assert ours.chat is not None
    ours.save_queue([])
    store.save_queue(ours.chat.id, ["of the other"])
    ours.save_queue([])
    assert store.load_queue(ours.chat.id) == ["of the other"]


def test_a_chat_that_was_deleted_elsewhere_does_not_end_this_one(store: ChatStore) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    store.delete_chat(store.list_chats()[0].id)
    content = AnswerContent.of("a")
    keeper.answer_ended(conversation.add("assistant", "a"), content, "complete", None)
    assert keeper.fault is not None and keeper.fault.hint
    keeper.asked(conversation.add("user", "more"))
    keeper.save_draft("text")


def test_leaving_out_and_the_shown_branch_are_kept(store: ChatStore, tmp_path: Path) -> None:
    keeper = ChatKeeper(store)
    conversation = begun(keeper)
    question = conversation.path[0]
    keeper.answer_ended(conversation.add("assistant", "a"), AnswerContent.of("a"), "complete", None)
    keeper.left_out([question], True)
    keeper.shows(question)
    assert keeper.chat is not None
    again = ChatKeeper(store).load(keeper.chat.id)
    assert [(message.text, message.left_out) for message in again.path] == [("q", True)]
    assert [message.text for message in again.path[0].children] == ["a"]


def test_the_branches_that_were_shown_last_are_kept(store: ChatStore) -> None:
    kept = KeptChat(ChatKeeper(store))
    for text in ("one", "two"):
        kept.ask(text)
    second = kept.conversation.leaf
    assert second is not None
    kept.conversation.leaf = second.parent
    kept.switch(kept.ask("two, again"), -1)
    kept.conversation.leaf = None
    kept.switch(kept.ask("one, changed"), 1)
    assert [message.text for message in kept.conversation.path] == ["one", "two"]
    kept.switch(kept.conversation.path[0], 1)
    chat = kept.keeper.chat
    assert chat is not None
    again = KeptChat(ChatKeeper(store))
    again.open(chat.id)
    assert [message.text for message in again.conversation.path] == ["one, changed"]
    again.switch(again.conversation.path[0], 1)
    assert [message.text for message in again.conversation.path] == ["one", "two"]
    again.ask("newest")
    third = KeptChat(ChatKeeper(store))
    third.open(chat.id)
    assert [message.text for message in third.conversation.path] == ["one", "two", "newest"]
    store.delete_chat(chat.id)
    assert store.viewed(chat.id) == {}
