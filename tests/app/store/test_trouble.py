"""A disk that is full, locked or not writable: the chat goes on in memory, and is saved when that is over."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.app.store import (
    ChatStore,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnsaved,
    UnknownChat,
    open_store,
)
from ebbtide.app.store import database as database_module

BIG = "x" * 10_000


def disk_of(store: ChatStore) -> sqlite3.Connection:
    connection = store._database._disk
    assert connection is not None
    return connection


def fill_disk(store: ChatStore) -> None:
    """From now on the file cannot grow: SQLite says of it what it says of a full disk."""
    pages = disk_of(store).execute("PRAGMA page_count").fetchone()[0]
    disk_of(store).execute(f"PRAGMA max_page_count = {pages}")


def empty_disk(store: ChatStore) -> None:
    disk_of(store).execute("PRAGMA max_page_count = 1000000")


@pytest.fixture(autouse=True)
def try_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change tries the disk, without a pause."""
    monkeypatch.setattr(database_module, "RETRY_S", 0.0)


def test_a_chat_goes_on_while_the_disk_is_full(store: ChatStore, file: Path) -> None:
    chat = store.create_chat()
    question = store.add_message(chat.id, None, "user", "before")
    fill_disk(store)
    answer = store.add_message(chat.id, question.id, "assistant", BIG, state="partial")
    assert isinstance(store.trouble, StoreFull) and store.trouble.exit_code == 4
    assert "disk is full" in str(store.trouble) and "memory" in store.trouble.hint
    store.append_partial(answer.id, " and more")
    store.finish_message(answer.id)
    new = store.create_chat(title="begun on a full disk")
    assert [m.content for m in store.path(answer.id)] == ["before", BIG + " and more"]
    assert store.search("more")[0].message_id == answer.id and new in store.list_chats()
    assert store.unsaved == 4
    with open_store(file) as other:
        assert other.get_chat(chat.id).message_count == 1

    empty_disk(store)
    store.save_draft("", "there is space again")
    assert store.trouble is None and store.unsaved == 0
    with open_store(file) as other:
        assert [m.content for m in other.path(answer.id)] == ["before", BIG + " and more"]
        assert other.get_chat(new.id) == new and other.load_draft("") == "there is space again"
        assert other.search("more")[0].message_id == answer.id


def test_closing_saves_what_waits(file: Path) -> None:
    store = open_store(file)
    chat = store.create_chat()
    fill_disk(store)
    store.add_message(chat.id, None, "user", BIG)
    assert store.unsaved == 1
    empty_disk(store)
    store.close()
    with open_store(file) as again:
        assert again.get_chat(chat.id).message_count == 1


def test_closing_on_a_disk_that_stays_full(file: Path) -> None:
    store = open_store(file)
    chat = store.create_chat()
    fill_disk(store)
    store.add_message(chat.id, None, "user", BIG)
    assert not store.retry()
    store.close()
    with open_store(file) as again:
        assert again.get_chat(chat.id).message_count == 0, "what was saved before is whole"


def test_a_chat_removed_meanwhile_stays_removed(store: ChatStore, file: Path) -> None:
    gone, kept = store.create_chat(), store.create_chat()
    fill_disk(store)
    store.add_message(gone.id, None, "user", BIG)
    message = store.add_message(kept.id, None, "user", BIG)
    empty_disk(store)
    with open_store(file) as other:
        other.delete_chat(gone.id)
    assert store.retry()
    with pytest.raises(UnknownChat):
        store.get_chat(gone.id)
    assert store.get_message(message.id).content == BIG


def test_mistakes_are_still_errors_in_memory(store: ChatStore) -> None:
    fill_disk(store)
    with pytest.raises(StoreError):
        store.add_message("zzz", None, "user", BIG)
    chat = store.create_chat(system=BIG)
    assert store.unsaved == 1 and store.trouble is not None
    with pytest.raises(UnknownChat):
        store.rename_chat("zzz", "x")
    assert store.unsaved == 1 and store.get_chat(chat.id).system == BIG


def test_a_store_too_large_for_memory_raises(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = store.create_chat()
    fill_disk(store)
    monkeypatch.setattr(database_module, "COPY_LIMIT_BYTES", 1)
    with pytest.raises(StoreFull):
        store.add_message(chat.id, None, "user", BIG)
    empty_disk(store)
    assert store.add_message(chat.id, None, "user", BIG) and store.trouble is None


def test_the_disk_is_not_tried_all_the_time(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = store.create_chat()
    fill_disk(store)
    store.add_message(chat.id, None, "user", BIG)
    empty_disk(store)
    monkeypatch.setattr(database_module, "RETRY_S", 1e9)
    store.save_draft("", "x")
    assert store.unsaved == 2
    assert store.retry() and store.unsaved == 0 and store.retry()


@pytest.fixture
def locked(store: ChatStore, file: Path) -> Iterator[None]:
    """Another program holds the write lock."""
    disk_of(store).execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_a_store_that_somebody_keeps_locked(store: ChatStore, file: Path, locked: None) -> None:
    chat = store.create_chat()
    store.add_message(chat.id, None, "user", "hello")
    assert isinstance(store.trouble, StoreBusy) and store.unsaved == 2
    assert [c.id for c in store.list_chats()] == [chat.id] and store.search("hello")


def test_a_store_that_is_free_again(store: ChatStore, file: Path) -> None:
    disk_of(store).execute("PRAGMA busy_timeout = 10")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        chat = store.create_chat()
    assert store.retry() and store.trouble is None
    with open_store(file) as again:
        assert again.get_chat(chat.id) == chat


def test_a_disk_that_is_read_only(store: ChatStore) -> None:
    chat = store.create_chat()
    disk_of(store).execute("PRAGMA query_only = ON")
    store.rename_chat(chat.id, "new")
    assert type(store.trouble) is StoreUnsaved and "permissions" in store.trouble.hint
    assert store.get_chat(chat.id).title == "new"
    disk_of(store).execute("PRAGMA query_only = OFF")
    assert store.retry() and store.get_chat(chat.id).title == "new"
