"""The chat store: one object that the app talks to. Every call is short and may come from any thread."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from ebbtide.app.safe_text import whole_text
from ebbtide.app.store import changes, chats, notes, search, titles, tree, writers
from ebbtide.app.store.connection import cut_log
from ebbtide.app.store.copies import copy_of
from ebbtide.app.store.database import Database
from ebbtide.app.store.errors import StoreDamaged, StoreError, StoreUnsaved
from ebbtide.app.store.ids import MessageIds, new_chat_id, now_ms
from ebbtide.app.store.opening import open_database
from ebbtide.app.store.reading import read_database
from ebbtide.app.store.records import Chat, Hit, Message, Role, State, Stats
from ebbtide.engine.messages import Timings, Usage

NEW_CHAT = notes.NEW_CHAT


class ChatStore:
    """Made by `open_store` or `open_or_memory`. Every method may raise StoreError."""

    def __init__(self, database: Database, notice: str = "") -> None:
        self.notice = notice
        """Something a person should know about the opening, such as a damaged file moved aside."""
        self._database = database
        self._ids = MessageIds()
        self._read_only = frozenset(database.not_on_disk(tree.versions))
        """What was there already, of a store that can only be read."""
        self._use_index = database.read(search.has_index) or bool(database.maintain(search.create_index))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def trouble(self) -> StoreError | None:
        """Why changes are kept in memory only at the moment (`str` and `.hint` are for people), or None.

        Look at it after a change. It goes away by itself when the disk takes changes again.
        """
        return self._database.trouble

    @property
    def unsaved(self) -> int:
        """How many changes wait for the disk."""
        return self._database.unsaved

    def unsaved_messages(self) -> dict[str, int]:
        """By the ids of chats: how many messages are not on disk as they are now. Empty while all is well,
        and for a store that was asked to be in memory.
        """
        unsaved = self._database.not_on_disk(tree.versions)
        return dict(Counter(version[0] for version in unsaved if version not in self._read_only))

    def retry(self) -> bool:
        """Try at once to save what waits. Returns whether all is on disk."""
        return self._database.save_pending()

    def close(self) -> None:
        """Save what waits, if possible, and let the file go."""
        self._database.close()

    # --- chats

    def create_chat(self, *, title: str = "", model: str = "", preset: str = "", system: str = "") -> Chat:
        """A new chat without messages. Without a title it gets one from the first question."""
        now = now_ms()
        chat = Chat(
            id=new_chat_id(),
            title=titles.given_title(title),
            created_ms=now,
            updated_ms=now,
            model=whole_text(model),
            preset=whole_text(preset),
            system=whole_text(system),
            head_id=None,
            message_count=0,
            is_named=bool(title),
        )
        self._database.write(lambda connection: chats.create(connection, chat))
        return chat

    def get_chat(self, chat_id: str) -> Chat:
        """Raises UnknownChat, which knows the nearest ids."""
        return self._database.read(lambda connection: chats.get(connection, chat_id))

    def list_chats(self, limit: int = 50, offset: int = 0) -> list[Chat]:
        """The latest change first."""
        return self._database.read(lambda connection: chats.newest(connection, limit, offset))

    def rename_chat(self, chat_id: str, title: str) -> None:
        given, now = titles.given_title(title), now_ms()
        self._database.write(lambda c: chats.set_title(c, chat_id, given, now, is_named=bool(given)))

    def set_chat_settings(self, chat_id: str, *, model: str, preset: str, system: str) -> None:
        """What the chat is continued with."""
        values = (whole_text(model), whole_text(preset), whole_text(system))
        self._database.write(lambda connection: chats.set_settings(connection, chat_id, *values))

    def delete_chat(self, chat_id: str) -> None:
        """Remove a chat for good: its text is overwritten in the file, in the index and in the log."""
        use = self._use_index
        self._database.write(lambda connection: changes.delete_chat(connection, chat_id, use_index=use))
        self._database.maintain(cut_log, in_transaction=False)

    def set_open_chat(self, chat_id: str) -> None:
        """Remember which chat is on the screen; `NEW_CHAT` for one that has not begun."""
        self._database.write(lambda connection: notes.set_open_chat(connection, chat_id))

    def last_open_chat(self) -> Chat | None:
        """The chat that was on the screen last, in whichever ebbtide, if it is still there."""
        return self._database.read(notes.open_chat)

    # --- messages

    def add_message(
        self,
        chat_id: str,
        parent_id: int | None,
        role: Role,
        content: str = "",
        *,
        thinking: str = "",
        state: State = "complete",
        model: str = "",
        writer: str = "",
    ) -> Message:
        """Add a leaf below `parent_id` (None: a root) and make it the head of its chat.

        An answer begins with `state="partial"` and a `writer` (`this_process`). The first question gives a
        chat without a title its title. Raises UnknownChat, UnknownMessage.
        """
        now = now_ms()
        message = Message(
            id=self._ids.next(after=parent_id or 0),
            chat_id=chat_id,
            parent_id=parent_id,
            role=role,
            content=whole_text(content),
            thinking=whole_text(thinking),
            state=state,
            finish_reason="",
            model=whole_text(model),
            usage=None,
            timings=None,
            left_out=False,
            created_ms=now,
            updated_ms=now,
        )
        self._database.write(lambda connection: changes.add_message(connection, message, writer))
        return message

    def append_partial(self, message_id: int, content: str, thinking: str = "") -> None:
        """Add new text to a partial message. Not for every token: about four times a second."""
        whole, thought, now = whole_text(content), whole_text(thinking), now_ms()
        self._database.write(lambda connection: tree.append(connection, message_id, whole, thought, now))

    def finish_message(
        self,
        message_id: int,
        *,
        state: State = "complete",
        content: str | None = None,
        thinking: str | None = None,
        finish_reason: str = "",
        model: str | None = None,
        usage: Usage | None = None,
        timings: Timings | None = None,
    ) -> Message:
        """End a partial message. Text that is given replaces what was appended. Raises UnknownMessage.

        With `state="partial"` it goes on: this is how to take back what was appended.
        """
        texts = {"content": content, "thinking": thinking, "model": model}
        fields: dict[str, object] = {
            "state": state,
            "finish_reason": finish_reason,
            "usage": usage,
            "timings": timings,
            "updated_ms": now_ms(),
        }
        fields |= {name: whole_text(text) for name, text in texts.items() if text is not None}
        message = self._database.write(lambda c: changes.finish_message(c, message_id, fields))
        self._index_batch()
        return message

    def withdraw_message(self, message_id: int) -> None:
        """Remove a message that nothing follows; its newest sibling, or else its parent, is shown instead.

        One that another app has gone on from stays. Raises UnknownMessage.
        """
        use = self._use_index
        self._database.write(lambda c: changes.withdraw_message(c, message_id, use_index=use))

    def being_written(self, chat_id: str) -> set[int]:
        """The ids of the answers of a chat that a living process writes, this one or another."""
        known = self._database.read(lambda connection: writers.of_chat(connection, chat_id))
        return {message_id for message_id, writer in known.items() if writers.is_living(writer)}

    def set_left_out(self, message_ids: Iterable[int], left_out: bool) -> None:
        """Whether the messages are kept from the model; they stay in the chat."""
        ids = list(message_ids)
        self._database.write(lambda connection: tree.set_left_out(connection, ids, left_out))

    def get_message(self, message_id: int) -> Message:
        return self._database.read(lambda connection: tree.get(connection, message_id))

    def path(self, leaf_id: int | None) -> list[Message]:
        """The branch that ends at `leaf_id`, root first; empty for None, the head of an empty chat."""
        if leaf_id is None:
            return []
        return self._database.read(lambda connection: tree.path(connection, leaf_id))

    def siblings(self, message_id: int) -> list[Message]:
        """The message and its alternatives (other wordings, other answers), oldest first."""
        return self._database.read(lambda connection: tree.siblings(connection, message_id))

    def branches(self, leaf_id: int | None) -> dict[int, list[int]]:
        """For each message of a path that has siblings: the ids of all of them, oldest first."""
        if leaf_id is None:
            return {}
        return self._database.read(lambda connection: tree.branches(connection, leaf_id))

    def leaf_below(self, message_id: int) -> int:
        """The leaf to show when a sibling or a search result is chosen: the newest child, and so on down."""
        return self._database.read(lambda connection: tree.leaf_below(connection, message_id))

    def set_active(self, chat_id: str, leaf_id: int | None) -> None:
        """Which branch is shown when the chat is opened; None for none. Raises UnknownMessage."""
        self._database.write(lambda connection: changes.set_active(connection, chat_id, leaf_id))

    def viewed(self, chat_id: str) -> dict[int, int]:
        """From messages to the child that was shown last (`set_active`), where that is not the newest."""
        return self._database.read(lambda connection: tree.viewed(connection, chat_id))

    def fork(self, message_id: int) -> Chat:
        """A new chat that holds a copy of the path down to `message_id`, with the same settings.

        Its title is the same with the next free number: "Sky (2)".
        """
        path = self.path(message_id)
        now = now_ms()
        origin = self.get_chat(path[0].chat_id)
        title = titles.numbered_title(origin.title, self._database.read(chats.titles))
        chat = msgspec.structs.replace(origin, title=title, is_named=False, created_ms=now, updated_ms=now)
        return self.add_chat(chat, path, head_id=message_id)

    def add_chat(self, chat: Chat, messages: Iterable[Message], head_id: int | None) -> Chat:
        """A copy of `chat` with `messages` (parents first) under a new id; the messages get new ids too."""
        copy, copies = copy_of(chat, messages, head_id, self._ids)
        self._database.write(lambda connection: changes.add_chat(connection, copy, copies))
        return copy

    def whole_tree(self, chat_id: str) -> list[Message]:
        """All messages of a chat, parents before children."""
        return self._database.read(lambda connection: tree.whole(connection, chat_id))

    # --- drafts, queued questions, history, search

    def save_draft(
        self, chat_id: str, text: str, pastes: Iterable[tuple[int, int]] = (), window: str = ""
    ) -> None:
        """Keep text that is not sent yet, for a chat or for `NEW_CHAT`; an empty text removes the draft.

        `pastes`: which characters of it were pasted, as (start, end). `window`: whose it is (`this_process`).
        """
        whole, spans, now = whole_text(text), list(pastes), now_ms()
        self._database.write(lambda c: notes.save_draft(c, chat_id, window, whole, spans, now))

    def load_draft(self, chat_id: str) -> str:
        """The latest text, whichever window it is in."""
        found = self._database.read(lambda connection: notes.drafts(connection, chat_id))
        return found[0].text if found else ""

    def take_draft(self, chat_id: str, window: str) -> tuple[str, list[tuple[int, int]]]:
        """The draft that `window` goes on with, and its pastes: its own, or the latest of a window that is
        gone, which is its own from now on. Drafts of windows that live stay theirs.
        """
        found = self._database.read(lambda connection: notes.drafts(connection, chat_id))
        for draft in found:
            if draft.window == window:
                return draft.text, draft.pastes
        for draft in found:
            if not writers.is_living(draft.window) and self._database.write(
                lambda c, before=draft.window: notes.take_draft(c, chat_id, before, window)  # type: ignore[misc]
            ):
                return draft.text, draft.pastes
        return "", []

    def save_queue(self, chat_id: str, questions: Iterable[str]) -> None:
        """Keep the questions that wait to be sent, for a chat or for `NEW_CHAT`, instead of those before."""
        whole = [whole_text(text) for text in questions]
        self._database.write(lambda connection: notes.save_queue(connection, chat_id, whole))

    def load_queue(self, chat_id: str) -> list[str]:
        """First to be sent first."""
        return self._database.read(lambda connection: notes.load_queue(connection, chat_id))

    def history(self, limit: int = 100, containing: str = "") -> list[str]:
        """What the person wrote in all chats, the latest first, each text once; case does not matter."""
        return self._database.read(lambda connection: notes.history(connection, limit, containing))

    def search(self, query: str, limit: int = 50) -> list[Hit]:
        """Chats and messages that have all words of `query`; every text is a query. See `search.search`."""
        try:
            while self._index_batch():
                pass
            return self._search(query, limit)
        except StoreDamaged:  # maybe the index only, and that is made anew at the next start
            if not self._use_index:
                raise
            self._use_index = False
            return self._search(query, limit)

    def stats(self) -> Stats:
        disk_bytes = self._database.disk_bytes()
        return Stats(*self._database.read(chats.count_all), disk_bytes)

    def _search(self, query: str, limit: int) -> list[Hit]:
        use = self._use_index
        return self._database.read(lambda connection: search.search(connection, query, limit, use_index=use))

    def _index_batch(self) -> bool:
        """Bring the search index a step nearer. False: nothing is left, or it fails."""
        if not self._use_index or not self._database.read(search.is_behind):
            return False
        return bool(self._database.maintain(search.index_batch))


def open_store(path: Path) -> ChatStore:
    """The store in that file, made if it is not there. A damaged file is moved aside: see `ChatStore.notice`.

    Raises StoreTooNew, and StoreError when the file or its folder cannot be used.
    """
    return ChatStore(*open_database(path))


def read_store(path: Path, trouble: StoreError) -> ChatStore:
    """What is in a file that nothing can be saved in for now, because of `trouble`. Raises StoreError."""
    return ChatStore(read_database(path, trouble, partial(_reopened, path)))


def memory_store(trouble: StoreError | None = None) -> ChatStore:
    """An empty store that goes with the process."""
    return ChatStore(Database(None, Path(":memory:"), trouble))


def open_or_memory(path: Path) -> ChatStore:
    """As `open_store`; where that fails, a store in memory with what can be read. `trouble` says why. It is
    moved to the disk as soon as that takes it.
    """
    try:
        return open_store(path)
    except StoreError as error:
        if isinstance(error, StoreUnsaved):
            with suppress(StoreError):
                return read_store(path, error)
            return ChatStore(Database(None, path, error, reopen=partial(_reopened, path)))
        return memory_store(error)


def _reopened(path: Path) -> sqlite3.Connection:
    """The file, now that it can be opened, with the index that new messages go to."""
    database, _ = open_database(path)
    if not database.read(search.has_index):
        database.maintain(search.create_index)
    return database.detach()
