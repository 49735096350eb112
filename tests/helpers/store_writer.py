"""A program that writes to a chat store, for tests with several processes: FILE TASK [ARGUMENT...].

It says `ready`, waits for a line on stdin, does its task, and says what it has done line by line.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from ebbtide.app.store import NEW_CHAT, open_store

TURNS = 60


def stream(file: Path) -> None:
    """Write an answer until killed; each line names words that are saved."""
    store = open_store(file)
    chat = store.create_chat()
    store.set_open_chat(chat.id)
    store.save_draft(NEW_CHAT, "a draft")
    question = store.add_message(chat.id, None, "user", "Go on for ever.")
    answer = store.add_message(chat.id, question.id, "assistant", state="partial")
    for number in range(1_000_000):
        store.append_partial(answer.id, f"{number} ", "hm ")
        print(number, flush=True)


def converse(file: Path, chat_id: str, parent_id: str, name: str) -> None:
    """Add a branch of TURNS messages below `parent_id`; the last line is its leaf."""
    with open_store(file) as store:
        parent = int(parent_id)
        for number in range(TURNS // 2):
            parent = store.add_message(chat_id, parent, "user", f"{name} {number}").id
            parent = store.add_message(chat_id, parent, "assistant", state="partial").id
            store.append_partial(parent, f"{name} ")
            store.finish_message(parent, content=f"{name} {number}")
            store.save_draft(chat_id, name)
        assert store.trouble is None
        print(parent, flush=True)


def begin(file: Path) -> None:
    """Open the store and begin a chat; the line says what opening it had to say."""
    with open_store(file) as store:
        store.create_chat(title="begun")
        assert store.trouble is None
        print(store.notice, flush=True)


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    tasks: dict[str, Callable[..., None]] = {"stream": stream, "converse": converse, "begin": begin}
    tasks[sys.argv[2]](Path(sys.argv[1]), *sys.argv[3:])
