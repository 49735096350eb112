"""Branches: editing, answering again and forking keep everything. A model of plain lists has to agree."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from rich.cells import cell_len

from ebbtide.app.store import ChatStore, Message, Role, UnknownMessage, open_store
from ebbtide.app.store.titles import TITLE_CELLS


def contents(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


def say(store: ChatStore, chat_id: str, parent: Message | None, role: Role, text: str) -> Message:
    return store.add_message(chat_id, parent.id if parent else None, role, text)


def test_edit_and_answer_again(store: ChatStore) -> None:
    chat = store.create_chat()
    question = say(store, chat.id, None, "user", "q")
    answer = say(store, chat.id, question, "assistant", "a")
    again = say(store, chat.id, question, "assistant", "a2")
    edited = say(store, chat.id, None, "user", "q2")
    assert contents(store.siblings(answer.id)) == ["a", "a2"]
    assert contents(store.siblings(question.id)) == ["q", "q2"]
    assert store.get_chat(chat.id).head_id == edited.id
    assert store.leaf_below(question.id) == again.id
    assert store.branches(answer.id) == {
        question.id: [question.id, edited.id],
        answer.id: [answer.id, again.id],
    }
    store.set_active(chat.id, store.leaf_below(question.id))
    assert contents(store.path(store.get_chat(chat.id).head_id)) == ["q", "a2"]
    store.set_active(chat.id, None)
    assert store.get_chat(chat.id).head_id is None


def test_a_fork_is_a_chat_of_its_own(store: ChatStore) -> None:
    chat = store.create_chat(model="tiny", system="Be brief.")
    question = say(store, chat.id, None, "user", "q")
    say(store, chat.id, question, "assistant", "other")
    answer = store.add_message(chat.id, question.id, "assistant", "a", thinking="hm", state="partial")
    fork = store.fork(answer.id)
    copy = store.path(fork.head_id)
    assert store.get_chat(fork.id) == fork and fork.message_count == 2
    assert (fork.title, fork.model, fork.system) == ("q (2)", "tiny", "Be brief.")
    assert contents(copy) == ["q", "a"] and copy[1].thinking == "hm"
    assert copy[1].state == "stopped", "nobody goes on writing a copy"
    say(store, fork.id, copy[1], "user", "only here")
    assert store.get_chat(chat.id).message_count == 3
    store.delete_chat(chat.id)
    assert contents(store.path(store.get_chat(fork.id).head_id)) == ["q", "a", "only here"]


def test_forks_are_numbered(store: ChatStore) -> None:
    chat = store.create_chat(title="Sky")
    message = say(store, chat.id, None, "user", "q")
    first = store.fork(message.id)
    assert (first.title, first.is_named) == ("Sky (2)", False)
    assert store.fork(message.id).title == "Sky (3)"
    assert first.head_id is not None and store.fork(first.head_id).title == "Sky (4)"
    store.rename_chat(chat.id, "w " * 80)
    assert cell_len(store.fork(message.id).title) <= TITLE_CELLS
    assert store.fork(message.id).title.endswith("… (3)")
    store.rename_chat(chat.id, "")
    assert store.fork(message.id).title == ""


def test_a_message_can_be_withdrawn_while_nothing_follows(store: ChatStore) -> None:
    chat = store.create_chat()
    question = say(store, chat.id, None, "user", "first")
    answer = say(store, chat.id, question, "assistant", "a")
    edited = say(store, chat.id, None, "user", "second wording")
    assert store.search("wording")
    store.withdraw_message(edited.id)
    assert store.search("wording") == []
    assert store.get_chat(chat.id).head_id == answer.id, "the newest sibling's branch is shown"
    store.withdraw_message(question.id)
    assert contents(store.whole_tree(chat.id)) == ["first", "a"], "another app has gone on from it"
    store.withdraw_message(answer.id)
    assert store.get_chat(chat.id).head_id == question.id
    store.withdraw_message(question.id)
    assert store.get_chat(chat.id).head_id is None
    with pytest.raises(UnknownMessage):
        store.withdraw_message(question.id)


def test_withdrawing_elsewhere_leaves_the_head(store: ChatStore) -> None:
    chat = store.create_chat()
    question = say(store, chat.id, None, "user", "first")
    other = say(store, chat.id, None, "user", "other")
    store.set_active(chat.id, question.id)
    store.withdraw_message(other.id)
    assert store.get_chat(chat.id).head_id == question.id


def test_messages_can_be_left_out(store: ChatStore) -> None:
    chat = store.create_chat()
    messages = [say(store, chat.id, None, "user", text) for text in "abc"]
    store.set_left_out([messages[0].id, messages[2].id, 77], True)
    store.set_left_out([messages[2].id], False)
    assert [m.left_out for m in store.whole_tree(chat.id)] == [True, False, False]
    assert store.path(store.fork(messages[0].id).head_id)[0].left_out


@pytest.mark.parametrize("now_ms", [0, 1_000, 10**13, 10**16])
def test_ids_rise_whatever_the_clock_says(
    store: ChatStore, monkeypatch: pytest.MonkeyPatch, now_ms: int
) -> None:
    chat = store.create_chat()
    question = say(store, chat.id, None, "user", "q")
    monkeypatch.setattr("ebbtide.app.store.ids.now_ms", lambda: now_ms)
    assert say(store, chat.id, question, "assistant", "a").id > question.id


class Trees(RuleBasedStateMachine):
    """Random additions, switches, forks and removals, against dictionaries."""

    @initialize()
    def open(self) -> None:
        self.folder = TemporaryDirectory()
        self.store = open_store(Path(self.folder.name) / "chats.db")
        self.parents: dict[str, dict[int, int | None]] = {}
        self.texts: dict[int, str] = {}
        self.heads: dict[str, int | None] = {}

    @rule()
    def create(self) -> None:
        chat_id = self.store.create_chat().id
        self.parents[chat_id], self.heads[chat_id] = {}, None

    @rule(data=st.data(), role=st.sampled_from(["user", "assistant"]), text=st.text(max_size=5))
    def add(self, data: st.DataObject, role: Role, text: str) -> None:
        if not self.parents:
            return
        chat_id = data.draw(st.sampled_from(list(self.parents)))
        parent = data.draw(st.sampled_from([None, *self.parents[chat_id]]))
        message = self.store.add_message(chat_id, parent, role, text)
        assert parent is None or parent < message.id
        self.parents[chat_id][message.id] = parent
        self.texts[message.id], self.heads[chat_id] = message.content, message.id

    @rule(data=st.data(), text=st.text(max_size=5))
    def append(self, data: st.DataObject, text: str) -> None:
        if known := self.messages():
            _, message_id = data.draw(st.sampled_from(known))
            self.store.append_partial(message_id, text)
            self.texts[message_id] += text

    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        if known := self.messages():
            chat_id, message_id = data.draw(st.sampled_from(known))
            leaf = self.store.leaf_below(message_id)
            below = message_id
            while children := [m for m, parent in self.parents[chat_id].items() if parent == below]:
                below = max(children)
            assert leaf == below
            self.store.set_active(chat_id, leaf)
            self.heads[chat_id] = leaf

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        if known := self.messages():
            chat_id, message_id = data.draw(st.sampled_from(known))
            chat = self.store.fork(message_id)
            copy = self.store.path(chat.head_id)
            assert [m.content for m in copy] == [self.texts[m] for m in self.path(chat_id, message_id)]
            self.parents[chat.id] = {message.id: message.parent_id for message in copy}
            self.texts |= {message.id: message.content for message in copy}
            self.heads[chat.id] = chat.head_id

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.parents:
            chat_id = data.draw(st.sampled_from(list(self.parents)))
            self.store.delete_chat(chat_id)
            del self.parents[chat_id], self.heads[chat_id]

    def messages(self) -> list[tuple[str, int]]:
        return [(chat_id, message) for chat_id, tree in self.parents.items() for message in tree]

    def path(self, chat_id: str, message_id: int | None) -> list[int]:
        path = []
        while message_id is not None:
            path.append(message_id)
            message_id = self.parents[chat_id][message_id]
        return path[::-1]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {chat.id: chat.head_id for chat in self.store.list_chats(1_000)} == self.heads
        for chat_id, tree in self.parents.items():
            assert [m.id for m in self.store.path(self.heads[chat_id])] == self.path(
                chat_id, self.heads[chat_id]
            )
            for message_id, parent in tree.items():
                siblings = [m.id for m in self.store.siblings(message_id)]
                assert siblings == sorted(m for m in tree if tree[m] == parent)
                assert self.store.get_message(message_id).content == self.texts[message_id]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=25, stateful_step_count=30)
