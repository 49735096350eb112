"""Chats that the store cannot save are written to files before they go with the process."""

import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.console import note
from ebbtide.app.conversation import Conversation, Message
from ebbtide.app.folded import write_folded
from ebbtide.app.program import program
from ebbtide.app.safe_text import safe_line
from ebbtide.app.screen_stream import screen_stream
from ebbtide.app.sentences import statement
from ebbtide.app.store import (
    ChatStore,
    StoreError,
    export_json,
    export_markdown,
    file_name,
    memory_store,
)

PRIVATE_FILE = 0o600
MOST_NAMES = 1000
"""Names are tried until one is free, so often."""


class Rescued(NamedTuple):
    """The files of one chat, and what could not be written."""

    files: list[Path]
    is_whole: bool


def unsaved_count(keeper: ChatKeeper, conversation: Conversation) -> int:
    """How many messages would be lost now: in memory only, or not even known to the store."""
    return sum(keeper.store.unsaved_messages().values()) + len(_unknown(keeper, conversation))


def unsaved_words(count: int) -> str:
    return "1 message is" if count == 1 else f"{count:,} messages are"


def save_or_rescue(keeper: ChatKeeper, conversation: Conversation, folder: Path) -> None:
    """At the end of the program: save what waits, else write it to files, and say on the terminal where
    they are. Nothing is said where all is saved.
    """
    with suppress(OSError, ValueError):  # the terminal may be gone
        for line in rescue(keeper, conversation, folder):
            note(line)


def tell_way_back(keeper: ChatKeeper, conversation: Conversation, model: str | None) -> None:
    """At the end of the program, how to go on with the chat, if there is one and it is on disk. `model`: as
    it was given on the command line.
    """
    store, chat = keeper.store, keeper.chat
    if chat is None or not conversation.path or store.trouble is not None or not store.stats().disk_bytes:
        return
    with suppress(OSError, ValueError):  # the terminal may be gone
        given = f" {shlex.quote(safe_line(model))}" if model is not None else ""
        if (stream := screen_stream()) is not None:  # where the chat was, also if errors go to a file
            write_folded(stream, f"`{program()}{given} --chat {chat.id}` goes on with this chat.")


def rescue(keeper: ChatKeeper, conversation: Conversation, folder: Path) -> list[str]:
    """Write the chats to `folder`, or else to the first place that takes them; returns what to say."""
    keeper.store.retry()
    count = unsaved_count(keeper, conversation)
    if not count:
        return []
    trouble = keeper.store.trouble or keeper.fault
    why = f" {statement(str(trouble))}" if trouble is not None else ""
    done = [_rescued(*chat, folder) for chat in _chats(keeper, conversation)]
    files = [f"  {file}" for one in done for file in one.files]
    said = [f"{unsaved_words(count).capitalize()} not saved in the chat store.{why}"]
    if files:
        said += ["Written instead to:", *files]
    if not all(one.is_whole for one in done):
        said += ["Not all could be written: no folder takes files now."]
    return said


def _unknown(keeper: ChatKeeper, conversation: Conversation) -> list[Message]:
    """Messages on the screen that no change has brought into the store."""
    if keeper.fault is None:
        return []
    return [message for message in conversation.path if not message.key]


def _chats(keeper: ChatKeeper, conversation: Conversation) -> Iterator[tuple[ChatStore, str]]:
    """Each chat with something to lose, and the store that knows all of it."""
    for chat_id in keeper.store.unsaved_messages():
        yield keeper.store, chat_id
    if _unknown(keeper, conversation):
        store = memory_store()
        title = keeper.chat.title if keeper.chat is not None else ""
        chat = store.create_chat(title=title, model=keeper.model, system=keeper.system)
        parent = None
        for message in conversation.path:
            parent = store.add_message(chat.id, parent, message.role, message.text).id
        yield store, chat.id


def _rescued(store: ChatStore, chat_id: str, folder: Path) -> Rescued:
    """As Markdown, for people, and as JSON, which has all branches."""
    files: list[Path] = []
    wanted = (("md", export_markdown), ("json", export_json))
    for kind, export in wanted:
        with suppress(StoreError):
            file = _written(_places(folder), file_name(store.get_chat(chat_id), kind), export(store, chat_id))
            files += [file] if file is not None else []
    return Rescued(files, len(files) == len(wanted))


def _places(folder: Path) -> Iterator[Path]:
    yield folder
    for find in (Path.home, lambda: Path(tempfile.gettempdir()), lambda: Path("/dev/shm")):
        with suppress(OSError, RuntimeError):
            yield find()


def _written(places: Iterable[Path], name: str, text: str) -> Path | None:
    """The new file, in the first folder that takes all of `text`; None where none does."""
    for place in places:
        with suppress(OSError):
            return _write_new(place.absolute() / name, text.encode("utf-8", "replace"))
    return None


def _write_new(path: Path, text: bytes) -> Path:
    """Write a file that only its owner reads; one that is there already stays. Raises OSError."""
    for number in range(1, MOST_NAMES):
        free = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            handle = os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        except FileExistsError:
            continue
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
        except OSError:
            with suppress(OSError):
                free.unlink()
            raise
        return free
    raise FileExistsError(path)
