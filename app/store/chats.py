"""The table of chats. Functions of a connection; changes are to be run inside a transaction."""

import difflib
import sqlite3
from typing import Any

import msgspec

from ebbtide.app.store.errors import UnknownChat
from ebbtide.app.store.records import Chat

COLUMNS = """
    id, title, created_ms, updated_ms, model, preset, system, head_id,
    (SELECT count(*) FROM messages WHERE chat_id = chats.id), is_named
"""
NEAREST = 3
LIKENESS = 0.5


def create(connection: sqlite3.Connection, chat: Chat) -> None:
    connection.execute(
        """
        INSERT INTO chats (id, title, created_ms, updated_ms, model, preset, system, head_id, is_named)
        VALUES (:id, :title, :created_ms, :updated_ms, :model, :preset, :system, :head_id, :is_named)
        """,
        msgspec.structs.asdict(chat),
    )


def get(connection: sqlite3.Connection, chat_id: str) -> Chat:
    """Raises UnknownChat."""
    chat = find(connection, chat_id)
    if chat is None:
        raise UnknownChat(chat_id, _nearest(connection, chat_id))
    return chat


def find(connection: sqlite3.Connection, chat_id: str) -> Chat | None:
    row = connection.execute(f"SELECT {COLUMNS} FROM chats WHERE id = ?", (chat_id,)).fetchone()
    return _chat(row) if row else None


def newest(connection: sqlite3.Connection, limit: int, offset: int) -> list[Chat]:
    """Latest change first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM chats ORDER BY updated_ms DESC, id DESC LIMIT ? OFFSET ?", (limit, offset)
    )
    return [_chat(row) for row in rows]


def count_all(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many chats there are, and how many messages."""
    chats, messages = connection.execute(
        "SELECT (SELECT count(*) FROM chats), (SELECT count(*) FROM messages)"
    ).fetchone()
    return chats, messages


def titles(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT title FROM chats")}


def set_title(
    connection: sqlite3.Connection, chat_id: str, title: str, at_ms: int, *, is_named: bool
) -> None:
    """`is_named`: a person gave it. Raises UnknownChat."""
    _update(connection, chat_id, "title = ?, is_named = ?, updated_ms = ?", title, is_named, at_ms)


def set_settings(connection: sqlite3.Connection, chat_id: str, model: str, preset: str, system: str) -> None:
    """Raises UnknownChat."""
    _update(connection, chat_id, "model = ?, preset = ?, system = ?", model, preset, system)


def set_head(connection: sqlite3.Connection, chat_id: str, head_id: int | None) -> None:
    """`head_id` is one of the chat's messages, or None. Raises UnknownChat."""
    _update(connection, chat_id, "head_id = ?", head_id)


def touch(connection: sqlite3.Connection, chat_id: str, at_ms: int) -> None:
    """Raises UnknownChat."""
    _update(connection, chat_id, "updated_ms = ?", at_ms)


def delete(connection: sqlite3.Connection, chat_id: str) -> None:
    """The chat, its messages, and what was not sent yet. Raises UnknownChat."""
    get(connection, chat_id)
    connection.execute("DELETE FROM messages WHERE chat_id = ?", (chat_id,))
    connection.execute("DELETE FROM drafts WHERE chat_id = ?", (chat_id,))
    connection.execute("DELETE FROM queued WHERE chat_id = ?", (chat_id,))
    connection.execute("DELETE FROM chats WHERE id = ?", (chat_id,))


def _chat(row: tuple[Any, ...]) -> Chat:
    values = dict(zip(Chat.__struct_fields__, row, strict=True))
    return Chat(**values | {"is_named": bool(values["is_named"])})


def _update(connection: sqlite3.Connection, chat_id: str, what: str, *values: object) -> None:
    done = connection.execute(f"UPDATE chats SET {what} WHERE id = ?", (*values, chat_id))
    if done.rowcount == 0:
        raise UnknownChat(chat_id, _nearest(connection, chat_id))


def _nearest(connection: sqlite3.Connection, chat_id: str) -> list[str]:
    known = [row[0] for row in connection.execute("SELECT id FROM chats")]
    return difflib.get_close_matches(chat_id.lower(), known, NEAREST, LIKENESS)
