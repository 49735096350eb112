"""Which process writes an answer, and whether it still lives."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil

from ebbtide.app.store import ChatStore, open_store, this_process
from ebbtide.app.store.writers import is_living


def begun(store: ChatStore, writer: str) -> tuple[str, int]:
    """A chat and its answer, which is being written."""
    chat = store.create_chat()
    question = store.add_message(chat.id, None, "user", "Why?")
    return chat.id, store.add_message(chat.id, question.id, "assistant", state="partial", writer=writer).id


def test_another_connection_sees_who_writes_until_the_end(store: ChatStore, file: Path) -> None:
    chat_id, answer_id = begun(store, this_process())
    with open_store(file) as other:
        assert other.being_written(chat_id) == {answer_id}
        store.finish_message(answer_id, state="partial", content="Bec")
        assert other.being_written(chat_id) == {answer_id}
        store.finish_message(answer_id, content="Because.")
        assert other.being_written(chat_id) == set()


def test_an_answer_that_is_withdrawn_or_deleted_has_no_writer(store: ChatStore) -> None:
    chat_id, answer_id = begun(store, this_process())
    store.withdraw_message(answer_id)
    assert store.being_written(chat_id) == set()
    other_id, _ = begun(store, this_process())
    store.delete_chat(other_id)
    assert store.being_written(other_id) == set()


def test_a_process_that_was_killed_writes_nothing(store: ChatStore) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start_s = psutil.Process(process.pid).create_time()
        writer = f"{process.pid} {start_s} {platform.node()}"
        chat_id, answer_id = begun(store, writer)
        assert store.being_written(chat_id) == {answer_id}
        process.kill()
    assert store.being_written(chat_id) == set()


def test_a_number_that_another_process_got_since_is_not_the_writer() -> None:
    pid, start_s = os.getpid(), psutil.Process().create_time()
    assert is_living(f"{pid} {start_s} {platform.node()}")
    assert is_living(f"{pid} 0.00 {platform.node()}"), "a system that does not tell when processes started"
    assert not is_living(f"{pid} {start_s - 60} {platform.node()}")
    assert not is_living(f"{pid} {start_s} another machine")
    assert not is_living("nonsense")
