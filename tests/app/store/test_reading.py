"""A home that is read-only: chats can be read, and a new one goes on in memory."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ebbtide.app.paths import find_paths
from ebbtide.app.store import StoreUnsaved, open_or_memory, open_store, reading
from tests.helpers.app_types import Cli


@pytest.fixture
def kept() -> Iterator[str]:
    """The id of a chat in the person's store."""
    with open_store(find_paths().chats) as store:
        chat = store.create_chat(title="an old chat")
        store.add_message(chat.id, None, "user", "an old question")
        yield chat.id


@pytest.fixture
def read_only(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is mounted read-only: no file can be opened for writing, by SQLite neither."""
    path, usual_open, usual_connect = find_paths().chats, os.open, sqlite3.connect

    def refuse(name: Any, flags: int, *rest: Any, **options: Any) -> int:
        if str(name) == str(path) and flags & os.O_RDWR:
            raise OSError(30, "Read-only file system")
        return usual_open(name, flags, *rest, **options)

    def connect(name: Any, **options: Any) -> sqlite3.Connection:
        if str(path) in str(name) and "immutable" not in str(name):
            raise sqlite3.OperationalError("unable to open database file")
        connection: sqlite3.Connection = usual_connect(name, **options)
        return connection

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(sqlite3, "connect", connect)


@pytest.mark.usefixtures("read_only")
def test_chats_are_listed_shown_and_exported(kept: str, cli: Cli) -> None:
    listed = cli("chats", "ls")
    assert (listed.code, listed.err) == (0, "") and "an old chat" in listed.out
    assert "an old question" in cli("chats", "show", kept).out
    assert "an old question" in cli("chats", "export", kept, "--format", "json").out


@pytest.mark.usefixtures("read_only")
def test_removing_is_refused_and_says_so(kept: str, cli: Cli) -> None:
    refused = cli("chats", "rm", "--yes", kept)
    assert refused.code == 1 and "Read-only file system" in refused.err
    assert "Nothing was changed" in refused.err and "memory" not in refused.err


@pytest.mark.usefixtures("read_only")
def test_a_chat_goes_on_from_an_old_one_in_memory(kept: str) -> None:
    with open_or_memory(find_paths().chats) as store:
        assert isinstance(store.trouble, StoreUnsaved) and store.unsaved_messages() == {}
        head = store.get_chat(kept).head_id
        store.add_message(kept, head, "user", "a new question")
        assert [message.content for message in store.path(store.get_chat(kept).head_id)] == [
            "an old question",
            "a new question",
        ]
        assert store.unsaved_messages() == {kept: 1}


@pytest.mark.usefixtures("kept")
def test_what_is_only_in_the_log_is_read_too() -> None:
    """The writer still lives, so that the log was not taken into the file."""
    path = find_paths().chats
    assert Path(f"{path}-wal").stat().st_size
    with closing(sqlite3.connect(":memory:")) as memory:
        reading._copy(path, memory)
        assert memory.execute("SELECT title FROM chats").fetchone() == ("an old chat",)
