"""Several processes at one store, and processes that are killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ebbtide.app.store import NEW_CHAT, ChatStore, open_store
from tests.helpers import store_writer

PATIENCE_S = 60.0
Process = subprocess.Popen[str]


class Writers:
    """Starts writers, and ends those that are left."""

    def __init__(self, file: Path, stack: ExitStack) -> None:
        self._file = file
        self._stack = stack

    def start(self, *arguments: str) -> Process:
        """A writer that has been started and waits for `go`."""
        root = Path(store_writer.__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(root)])}
        command = [sys.executable, store_writer.__file__, str(self._file), *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        assert line_of(process) == "ready"
        return process

    def run(self, *calls: tuple[str, ...]) -> list[str]:
        """Let writers work at the same time; returns what each said."""
        processes = [self.start(*arguments) for arguments in calls]
        for process in processes:
            go(process)
        outputs = [process.communicate(timeout=PATIENCE_S)[0].strip() for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes)
        return outputs


@pytest.fixture
def writers(file: Path) -> Iterator[Writers]:
    with ExitStack() as stack:
        yield Writers(file, stack)


def go(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def line_of(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_what_was_saved_survives_a_kill(writers: Writers, file: Path) -> None:
    process = writers.start("stream")
    go(process)
    while line_of(process) != "200":
        pass
    process.kill()
    assert process.stdout is not None
    rest = process.stdout.read().splitlines()
    last = int(rest[-1] if rest and rest[-1].isdigit() else 200)
    with open_store(file) as store:
        chat = store.last_open_chat()
        assert chat is not None and store.notice == "" and store.load_draft(NEW_CHAT) == "a draft"
        question, answer = store.path(chat.head_id)
        words = answer.content.split()
        assert words == [str(number) for number in range(len(words))] and len(words) > last
        assert answer.thinking.split() == ["hm"] * len(words)
        assert (question.content, answer.state) == ("Go on for ever.", "partial")
        assert store.search("200")[0].message_id == answer.id
        store.finish_message(answer.id, state="stopped")


def test_two_apps_in_one_chat_keep_their_own_branches(store: ChatStore, writers: Writers) -> None:
    chat = store.create_chat()
    root = store.add_message(chat.id, None, "user", "root")
    names = ["first", "second"]
    leaves = writers.run(*(("converse", chat.id, str(root.id), name) for name in names))
    for name, leaf in zip(names, leaves, strict=True):
        turns = [f"{name} {number}" for number in range(store_writer.TURNS // 2) for _ in range(2)]
        path = store.path(int(leaf))
        assert [message.content for message in path] == ["root", *turns]
        assert {message.state for message in path} == {"complete"}
    kept = store.get_chat(chat.id)
    assert kept.message_count == 1 + 2 * store_writer.TURNS
    assert str(kept.head_id) in leaves and store.load_draft(chat.id) in names
    assert len(store.search("first", limit=1_000)) == store_writer.TURNS


def test_many_apps_make_the_store_at_once(writers: Writers, file: Path) -> None:
    assert writers.run(*[("begin",)] * 6) == [""] * 6
    with open_store(file) as store:
        assert len(store.list_chats()) == 6


def test_many_apps_find_a_damaged_store_at_once(writers: Writers, file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database " * 1_000)
    said = writers.run(*[("begin",)] * 6)
    [aside] = file.parent.glob("chats-damaged-*.db")
    assert sorted(text for text in said if text) == [
        f"The chat store was damaged. It is kept as {aside}; this is a new one."
    ]
    with open_store(file) as store:
        assert len(store.list_chats()) == 6
