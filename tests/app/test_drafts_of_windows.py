"""Unsent text belongs to a window: two that are open do not share it, and nothing that was typed is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.store import ChatStore, memory_store, open_store
from tests.app.test_chat_kept import app_with
from tests.helpers.chat_host import press, prompt_of, ready, until, written
from tests.helpers.ended_process import ended_process


@pytest.fixture
def store() -> Iterator[ChatStore]:
    with memory_store() as opened:
        yield opened


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a window that is open elsewhere."""
    monkeypatch.setattr("ebbtide.app.store.writers.is_living", lambda writer: writer == "other")
    return "other"


def test_a_second_window_begins_with_an_empty_draft(store: ChatStore, other: str) -> None:
    first, second = ChatKeeper(store, window=other), ChatKeeper(store)
    first.save_draft("AAA draft one")
    assert second.load_draft() == ("", [])
    second.save_draft("BBB draft two")
    assert first.load_draft()[0] == "AAA draft one"
    second.save_draft("")
    assert first.load_draft()[0] == "AAA draft one", "sent or taken away is one's own draft only"


def test_the_same_in_a_chat_that_has_begun(store: ChatStore, other: str) -> None:
    chat = store.create_chat()
    first, second = ChatKeeper(store, window=other), ChatKeeper(store)
    for keeper in (first, second):
        keeper.load(chat.id)
    first.save_draft("one")
    assert second.load_draft() == ("", [])


def test_the_drafts_of_windows_that_are_gone_come_back_one_by_one(store: ChatStore) -> None:
    gone = ended_process()
    node = gone.split(" ", 2)[2]
    ChatKeeper(store, window=f"{2**22 + 1} 1.00 {node}").save_draft("older")
    ChatKeeper(store, window=gone).save_draft("newer [x]", [(6, 9)])
    store._database.write(lambda c: c.execute("UPDATE drafts SET updated_ms = 1 WHERE text = 'older'"))
    keeper = ChatKeeper(store)
    assert keeper.load_draft() == ("newer [x]", [(6, 9)])
    assert ChatKeeper(store).load_draft()[0] == "newer [x]", "it is this process's now"
    keeper.save_draft("")
    assert keeper.load_draft()[0] == "older"


def test_a_draft_is_taken_by_one_window_only(store: ChatStore, other: str) -> None:
    ChatKeeper(store, window="gone").save_draft("unsent")
    assert ChatKeeper(store, window=other).load_draft()[0] == "unsent"
    assert ChatKeeper(store).load_draft()[0] == ""


async def test_a_second_window_types_beside_the_first(tmp_path: Path, other: str) -> None:
    store = open_store(tmp_path / "chats.db")
    ChatKeeper(store, window=other).save_draft("of the other window")
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        assert prompt_of(pilot).text == ""
        press(pilot, *"mine")
        await written(pilot, "mine")
        await until(pilot, lambda: store.load_draft("") == "mine")
    assert ChatKeeper(store, window=other).load_draft()[0] == "of the other window"
