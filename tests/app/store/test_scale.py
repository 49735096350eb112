"""A store of 10,000 messages: no query walks through a table, and partial answers are cheap to save."""

from collections.abc import Callable, Iterator

import msgspec
import pytest

from ebbtide.app.store import Chat, ChatStore, Message, open_store
from ebbtide.app.store.ids import MessageIds

CHATS = 100
TURNS = 100
INDEX_STEPS = (
    "SCAN chats USING INDEX chats_by_update",  # a page of the list, in its order
    "SCAN messages USING INDEX messages_of_user",  # the history, until there is enough
    "SCAN messages USING INDEX messages_not_indexed",  # only what has changed
    "SCAN message_index VIRTUAL TABLE INDEX 0:=",  # one row by its number
)
"""Steps that SQLite calls scans, and that read no more than they have to."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatStore]:
    with open_store(tmp_path_factory.mktemp("large") / "chats.db") as opened:
        chat = opened.create_chat(title="long")
        ids = MessageIds()
        template = opened.add_message(chat.id, None, "user", "")
        for number in range(CHATS):
            messages: list[Message] = []
            for turn in range(TURNS):
                messages.append(
                    msgspec.structs.replace(
                        template,
                        id=ids.next(),
                        parent_id=messages[-1].id if messages else None,
                        role="assistant" if turn % 2 else "user",
                        content=f"chat {number} turn {turn} " + "lorem ipsum " * 20,
                    )
                )
            opened.add_chat(chat, messages, messages[-1].id)
        opened.delete_chat(chat.id)
        yield opened


@pytest.fixture
def chat(store: ChatStore) -> Chat:
    """One of the long ones."""
    return next(chat for chat in store.list_chats() if chat.message_count == TURNS)


def plans_of(store: ChatStore, call: Callable[[], object]) -> list[str]:
    """The plan of every statement that `call` runs, one line for each step."""
    connection = store._database._disk
    assert connection is not None
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    call()
    connection.set_trace_callback(None)
    plans = []
    for statement in statements:
        if statement.split()[0] in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE"):
            plans += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    return plans


def scans(plans: list[str]) -> set[str]:
    """Steps that walk through a whole table or sort it."""
    harmless = ("SCAN up", "SCAN down", "SCAN CONSTANT ROW", *INDEX_STEPS)
    return {
        step
        for step in plans
        if (step.startswith("SCAN") and not step.startswith(harmless)) or step.startswith("USE TEMP B-TREE")
    }


def test_no_call_walks_through_the_messages(store: ChatStore, chat: Chat) -> None:
    assert chat.head_id is not None
    head, question = chat.head_id, store.path(chat.head_id)[0]
    calls: dict[str, tuple[Callable[[], object], set[str]]] = {
        "list": (lambda: store.list_chats(limit=20, offset=40), set()),
        "get": (lambda: store.get_chat(chat.id), set()),
        "path": (lambda: store.path(head), {"USE TEMP B-TREE FOR ORDER BY"}),
        "siblings": (lambda: store.siblings(question.id), set()),
        "branches": (lambda: store.branches(head), {"USE TEMP B-TREE FOR ORDER BY"}),
        "leaf": (lambda: store.leaf_below(question.id), set()),
        "whole tree": (lambda: store.whole_tree(chat.id), set()),
        "history": (lambda: store.history(20), set()),
        "open": (store.last_open_chat, set()),
        "draft": (lambda: store.save_draft(chat.id, "x"), set()),
        "active": (lambda: store.set_active(chat.id, head), set()),
    }
    for name, (call, allowed) in calls.items():
        plans = plans_of(store, call)
        assert plans or name == "draft", name
        assert scans(plans) <= allowed, (name, plans)


def test_no_change_walks_through_the_messages(store: ChatStore) -> None:
    chat = store.create_chat()

    def answer() -> None:
        question = store.add_message(chat.id, None, "user", "Why?")
        message = store.add_message(chat.id, question.id, "assistant", state="partial")
        store.append_partial(message.id, "Because")
        store.finish_message(message.id)
        store.withdraw_message(message.id)

    assert scans(plans_of(store, answer)) == set()


def test_a_long_chat_is_read_whole(store: ChatStore, chat: Chat) -> None:
    assert len(store.path(chat.head_id)) == TURNS and store.stats().messages >= CHATS * TURNS


def test_search_finds_every_match(store: ChatStore) -> None:
    assert len(store.search("chat 7 turn 99", limit=1_000)) == 22, "chats 7 and 7x, and the same for turns"
    assert len(store.search("turn lorem", limit=20_000)) == CHATS * TURNS
    assert len(store.search("ipsum turn", limit=7)) == 7


def test_saving_a_piece_changes_one_row(store: ChatStore) -> None:
    """The search index is left alone while an answer is written."""
    connection = store._database._disk
    assert connection is not None
    answer = store.add_message(store.create_chat().id, None, "assistant", state="partial")
    before = connection.total_changes
    for _ in range(1_000):
        store.append_partial(answer.id, "x" * 40)
    assert connection.total_changes - before == 1_000
    assert len(store.get_message(answer.id).content) == 40_000
