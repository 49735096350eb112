"""Opening: private files, migrations, stores from the future, damaged files, folders that cannot be used."""

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ebbtide.app.store import (
    ChatStore,
    StoreDamaged,
    StoreTooNew,
    StoreUnsaved,
    database,
    open_or_memory,
    open_store,
)
from ebbtide.app.store.connection import connect
from ebbtide.app.store.schema import MIGRATIONS, migrate

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


def dump(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


@posix
def test_only_the_owner_can_read_it(file: Path) -> None:
    previous = os.umask(0)
    try:
        with open_store(file) as store:
            store.create_chat()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    finally:
        os.umask(previous)
    assert modes == {"chats.db": 0o600, "chats.db-wal": 0o600, "chats.db-shm": 0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@posix
def test_permissions_that_are_too_wide_are_narrowed(file: Path) -> None:
    file.parent.mkdir(mode=0o755)
    file.touch(mode=0o644)
    open_store(file).close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_it_writes_ahead_and_overwrites_what_is_deleted(file: Path) -> None:
    with open_store(file):
        pass
    with closing(connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# --- migrations


VERSION_1 = (Path(__file__).with_name("version_1.sql")).read_text()
"""A store as the first version of ebbtide wrote it, with a chat in it."""


def old_store(file: Path, version: int) -> None:
    """A store of `version` that has been used since version 1."""
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(VERSION_1)
        migrate(connection, MIGRATIONS[:version])


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_store_of_every_version_can_be_opened(file: Path, version: int) -> None:
    old_store(file, version)
    with open_store(file) as store:
        [chat] = store.list_chats()
        assert (chat.id, chat.title, chat.system, chat.message_count) == (
            "bcdfgh",
            "Old chat",
            "Be brief.",
            2,
        )
        assert [(m.content, m.state) for m in store.path(chat.head_id)] == [
            ("Why?", "complete"),
            ("Becau", "partial"),
        ]
        assert store.load_draft("") == "not sent" and store.load_queue(chat.id) == []
        assert chat.is_named, "it may have been a person who named it"
        assert [hit.message_id for hit in store.search("becau")] == [12]
        assert store.add_message(chat.id, 12, "user", "Go on.").id > 12


def test_a_new_store_has_the_tables_of_an_old_one(file: Path, tmp_path: Path) -> None:
    old_store(file, 1)
    open_store(file).close()
    open_store(tmp_path / "new.db").close()

    def tables(path: Path) -> list[str]:
        return [" ".join(line.split()) for line in dump(path) if line.startswith("CREATE")]

    assert tables(file) == tables(tmp_path / "new.db")


def test_steps_run_in_order_and_once(file: Path) -> None:
    steps = (*MIGRATIONS, ("ALTER TABLE chats ADD colour TEXT",), ("UPDATE chats SET colour = 'red'",))
    old_store(file, 1)
    for _ in range(2):
        with closing(connect(file)) as connection:
            migrate(connection, steps)
            assert connection.execute("SELECT colour FROM chats").fetchone() == ("red",)
            assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 2,)


def test_a_step_that_fails_leaves_the_old_version(file: Path) -> None:
    old_store(file, 1)
    before = dump(file)
    steps = (*MIGRATIONS, ("ALTER TABLE chats ADD colour TEXT", "ALTER TABLE nowhere ADD x"))
    with closing(connect(file)) as connection, pytest.raises(sqlite3.OperationalError):
        migrate(connection, steps)
    assert dump(file) == before


def test_a_newer_store_is_refused_and_left_as_it_is(file: Path) -> None:
    old_store(file, 1)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("DROP TABLE marks")
    before = file.read_bytes()
    with pytest.raises(StoreTooNew, match="99") as caught:
        open_store(file)
    assert "Update ebbtide" in caught.value.hint
    assert file.read_bytes() == before
    with open_or_memory(file) as store:
        assert isinstance(store.trouble, StoreTooNew)
        chat = store.create_chat()
        store.add_message(chat.id, None, "user", "in memory")
        assert store.search("memory") and not store.retry() and store.stats().disk_bytes == 0
    assert file.read_bytes() == before and [path.name for path in file.parent.iterdir()] == [file.name]


# --- damage


@pytest.mark.parametrize("damage", [b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_moved_aside(file: Path, damage: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(damage)
    with open_store(file) as store:
        [aside] = file.parent.glob("chats-damaged-*.db")
        assert str(aside) in store.notice and aside.read_bytes() == damage
        assert store.list_chats() == [] and store.trouble is None
        store.create_chat()
    with open_store(file) as again:
        assert again.notice == "" and len(again.list_chats()) == 1


def full_store(file: Path) -> None:
    with open_store(file) as store:
        for number in range(20):
            chat = store.create_chat(title=f"chat {number}")
            store.add_message(chat.id, None, "user", f"question {number} " * 500)


def test_damage_that_shows_later_is_found_at_the_next_start(file: Path) -> None:
    full_store(file)
    whole = file.read_bytes()
    half = len(whole) // 2 // 4096 * 4096
    file.write_bytes(whole[:half] + b"\x55" * (len(whole) - half))
    store = open_store(file)
    with pytest.raises(StoreDamaged, match="damaged"):
        for chat in store.list_chats():
            store.path(chat.head_id)
        store.search("question 漢")
    store.close()
    with open_store(file) as again:
        [aside] = file.parent.glob("chats-damaged-*.db")
        assert str(aside) in again.notice and again.list_chats() == []
        assert again.trouble is None


def damage_index(file: Path, how: str) -> None:
    with open_store(file) as store:
        assert len(store.search("question")) == 20
    with closing(connect(file)) as connection:
        connection.execute(how)


def test_a_damaged_index_is_made_anew(file: Path) -> None:
    full_store(file)
    damage_index(file, "UPDATE message_index_data SET block = randomblob(400) WHERE id > 10")
    for _ in range(2):
        with open_store(file) as store:
            assert store.notice == "" and len(store.search("question")) == 20
    assert store._use_index


def test_an_index_beyond_repair_is_done_without(file: Path) -> None:
    full_store(file)
    damage_index(file, "DELETE FROM message_index_data")
    with open_store(file) as store:
        assert store.notice == "" and not store._use_index
        [first, *_] = store.list_chats()
        store.add_message(first.id, None, "user", "another question")
        assert len(store.search("question")) == 21
        store.delete_chat(first.id)
        assert len(store.search("question")) == 19


def test_a_truncated_file(file: Path) -> None:
    full_store(file)
    file.write_bytes(file.read_bytes()[:6000])
    with open_or_memory(file) as store:
        store.create_chat()
        kept = list(file.parent.glob("chats-damaged-*.db"))
        assert (len(kept) == 1) == bool(store.notice)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "chats").write_text("a file where the folder should be")
    file = tmp_path / "chats" / "chats.db"
    with pytest.raises(StoreUnsaved, match="cannot be kept"):
        open_store(file)
    with open_or_memory(file) as store:
        assert store.trouble is not None and "EBBTIDE_HOME" in store.trouble.hint
        assert store.create_chat() in store.list_chats()


def test_a_store_that_could_not_be_made_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at the very first start: what was said until there is space is saved then, and found."""
    monkeypatch.setattr(database, "RETRY_S", 0.0)
    folder = tmp_path / "chats"
    folder.write_text("in the way")
    file = folder / "chats.db"
    with open_or_memory(file) as store:
        chat = store.create_chat(title="begun without a disk")
        question = store.add_message(chat.id, None, "user", "a rare question")
        assert store.trouble is not None and store.unsaved == 2 and not store.retry()
        assert store.unsaved_messages() == {chat.id: 1}
        folder.unlink()
        answer = store.add_message(chat.id, question.id, "assistant", "an answer")
        assert store.trouble is None and store.unsaved == 0 and store.unsaved_messages() == {}
        assert [hit.message_id for hit in store.search("rare")] == [question.id]
    with open_store(file) as again:
        assert [message.content for message in again.path(answer.id)] == ["a rare question", "an answer"]
        assert [hit.message_id for hit in again.search("rare")] == [question.id]


def test_one_that_is_there_by_then_keeps_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "RETRY_S", 0.0)
    folder = tmp_path / "chats"
    folder.write_text("in the way")
    file = folder / "chats.db"
    with open_or_memory(file) as store:
        chat = store.create_chat(title="ours")
        folder.unlink()
        with open_store(file) as other:
            theirs = other.create_chat(title="theirs")
        assert store.retry() and store.trouble is None
        assert {found.id for found in store.list_chats()} == {chat.id, theirs.id}


def test_it_is_not_tried_at_every_word(tmp_path: Path) -> None:
    (tmp_path / "chats").write_text("in the way")
    with open_or_memory(tmp_path / "chats" / "chats.db") as store:
        chat = store.create_chat()
        (tmp_path / "chats").unlink()
        store.add_message(chat.id, None, "user", "soon after")
        assert store.trouble is not None, "a disk that refuses may keep us waiting each time"
        assert store.retry() and store.trouble is None


def test_two_stores_in_one_process(file: Path, store: ChatStore) -> None:
    with open_store(file) as other:
        chat = store.create_chat(title="seen by both")
        assert other.list_chats() == [chat]
