"""The table of messages: a tree per chat. Functions of a connection; changes belong inside a transaction.

A message never changes its parent, and only a leaf can be removed alone: editing a question or asking for
another answer adds a sibling. A branch is named by its leaf.

    question ── answer ── question 2 ── answer 2
                     ╰──── question 2, edited ── answer
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from ebbtide.app.store.errors import UnknownMessage
from ebbtide.app.store.records import Message
from ebbtide.engine.messages import Timings, Usage

FIELDS = Message.__struct_fields__
NAMES = ", ".join(FIELDS)
"""The columns are the fields of `Message`, in its order."""
_M_NAMES = ", ".join(f"m.{name}" for name in FIELDS)
_INSERT = f"INSERT INTO messages ({NAMES}) VALUES ({', '.join(f':{name}' for name in FIELDS)})"
_APPEND = """
    UPDATE messages SET content = content || ?, thinking = thinking || ?, updated_ms = ?, indexed = 0
    WHERE id = ?
"""
_REPLACE = """
    UPDATE messages SET content = :content, thinking = :thinking, state = :state, model = :model,
        finish_reason = :finish_reason, usage = :usage, timings = :timings,
        updated_ms = :updated_ms, indexed = 0
    WHERE id = :id
"""
_REMOVE_LEAF = """
    DELETE FROM messages WHERE id = ?1 AND NOT EXISTS (
        SELECT 1 FROM messages AS m WHERE m.chat_id = messages.chat_id AND m.parent_id = messages.id
    )
"""
_CHILDREN = "SELECT id FROM messages WHERE chat_id = ? AND parent_id IS ? ORDER BY id"
_PATH = f"""
    WITH RECURSIVE up (id, parent_id, height) AS (
        SELECT id, parent_id, 0 FROM messages WHERE id = ?
        UNION ALL
        SELECT m.id, m.parent_id, up.height + 1 FROM up JOIN messages AS m ON m.id = up.parent_id
    )
    SELECT {_M_NAMES} FROM up JOIN messages AS m ON m.id = up.id ORDER BY up.height DESC
"""
_LEAF = """
    WITH RECURSIVE down (id) AS (
        SELECT ?1
        UNION ALL
        SELECT (SELECT max(m.id) FROM messages AS m WHERE m.chat_id = ?2 AND m.parent_id = down.id)
        FROM down WHERE down.id IS NOT NULL
    )
    SELECT max(id) FROM down
"""


_UP = """
    WITH RECURSIVE up (id, parent_id) AS (
        SELECT id, parent_id FROM messages WHERE id = ?
        UNION ALL
        SELECT m.id, m.parent_id FROM up JOIN messages AS m ON m.id = up.parent_id
    )
"""
_FORGET_PATH = f"{_UP} DELETE FROM viewed WHERE parent_id IN (SELECT id FROM up)"
_REMEMBER_PATH = f"""
    {_UP} INSERT INTO viewed SELECT parent_id, id FROM up WHERE parent_id IS NOT NULL AND EXISTS (
        SELECT 1 FROM messages AS m
        WHERE m.chat_id = (SELECT chat_id FROM messages WHERE id = up.id)
            AND m.parent_id = up.parent_id AND m.id > up.id
    )
"""


def insert(connection: sqlite3.Connection, message: Message) -> None:
    """Raises UnknownMessage if the parent is not in the same chat. The chat must exist."""
    if message.parent_id is not None:
        require(connection, message.chat_id, message.parent_id)
    connection.execute(_INSERT, _row(message))
    connection.execute("DELETE FROM viewed WHERE parent_id = ?", (message.parent_id,))  # the newest is shown


def append(connection: sqlite3.Connection, message_id: int, content: str, thinking: str, at_ms: int) -> None:
    """Add to the end of a message. Raises UnknownMessage."""
    if connection.execute(_APPEND, (content, thinking, at_ms, message_id)).rowcount == 0:
        raise UnknownMessage(message_id)


def replace(connection: sqlite3.Connection, message: Message) -> None:
    """Everything but id, chat, parent, role and the time it was made. Raises UnknownMessage."""
    if connection.execute(_REPLACE, _row(message)).rowcount == 0:
        raise UnknownMessage(message.id)


def set_left_out(connection: sqlite3.Connection, message_ids: Iterable[int], left_out: bool) -> None:
    """Those that are not there any more are passed over."""
    rows = [(left_out, message_id) for message_id in message_ids]
    connection.executemany("UPDATE messages SET left_out = ? WHERE id = ?", rows)


def remove_leaf(connection: sqlite3.Connection, message_id: int) -> bool:
    """Remove a message that has no children. Returns whether it was removed."""
    return connection.execute(_REMOVE_LEAF, (message_id,)).rowcount > 0


def get(connection: sqlite3.Connection, message_id: int) -> Message:
    """Raises UnknownMessage."""
    row = connection.execute(f"SELECT {NAMES} FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise UnknownMessage(message_id)
    return _message(row)


def path(connection: sqlite3.Connection, leaf_id: int) -> list[Message]:
    """From the root down to `leaf_id`. Raises UnknownMessage."""
    messages = [_message(row) for row in connection.execute(_PATH, (leaf_id,))]
    if not messages:
        raise UnknownMessage(leaf_id)
    return messages


def children(connection: sqlite3.Connection, chat_id: str, parent_id: int | None) -> list[int]:
    """Their ids, oldest first; with `parent_id` None those of the roots."""
    rows = connection.execute(_CHILDREN, (chat_id, parent_id))
    return [row[0] for row in rows]


def siblings(connection: sqlite3.Connection, message_id: int) -> list[Message]:
    """The children of its parent, itself included, oldest first. Raises UnknownMessage."""
    message = get(connection, message_id)
    return [get(connection, sibling) for sibling in children(connection, message.chat_id, message.parent_id)]


def branches(connection: sqlite3.Connection, leaf_id: int) -> dict[int, list[int]]:
    """For each message of a path that has siblings: the ids of all of them. Raises UnknownMessage."""
    ids = {m.id: children(connection, m.chat_id, m.parent_id) for m in path(connection, leaf_id)}
    return {message_id: siblings for message_id, siblings in ids.items() if len(siblings) > 1}


def leaf_below(connection: sqlite3.Connection, message_id: int) -> int:
    """The end of the branch that takes the newest child everywhere. Raises UnknownMessage."""
    message = get(connection, message_id)
    return int(connection.execute(_LEAF, (message_id, message.chat_id)).fetchone()[0])


def whole(connection: sqlite3.Connection, chat_id: str) -> list[Message]:
    """All messages of a chat, parents before their children."""
    rows = connection.execute(f"SELECT {NAMES} FROM messages WHERE chat_id = ? ORDER BY id", (chat_id,))
    return [_message(row) for row in rows]


def remember_path(connection: sqlite3.Connection, leaf_id: int) -> None:
    """The branch that ends at `leaf_id` is shown: its messages are those that were viewed last."""
    connection.execute(_FORGET_PATH, (leaf_id,))
    connection.execute(_REMEMBER_PATH, (leaf_id,))


def viewed(connection: sqlite3.Connection, chat_id: str) -> dict[int, int]:
    """From messages to the child that was shown last, where that is not the newest."""
    rows = connection.execute(
        "SELECT v.parent_id, child_id FROM messages JOIN viewed AS v ON v.parent_id = id WHERE chat_id = ?",
        (chat_id,),
    )
    return {int(parent_id): int(child_id) for parent_id, child_id in rows}


def versions(connection: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    """Chat, message, time and length: of every message, what differs once it has changed."""
    rows = "SELECT chat_id, id, updated_ms, length(content) + length(thinking) FROM messages ORDER BY id"
    return [(str(row[0]), *map(int, row[1:])) for row in connection.execute(rows)]  # type: ignore[misc]


def require(connection: sqlite3.Connection, chat_id: str, message_id: int) -> None:
    """Raises UnknownMessage unless the message is in that chat."""
    found = connection.execute("SELECT 1 FROM messages WHERE chat_id = ? AND id = ?", (chat_id, message_id))
    if found.fetchone() is None:
        raise UnknownMessage(message_id)


def _row(message: Message) -> dict[str, Any]:
    row = msgspec.structs.asdict(message)
    return row | {"usage": _to_json(message.usage), "timings": _to_json(message.timings)}


def _message(row: tuple[Any, ...]) -> Message:
    values = dict(zip(FIELDS, row, strict=True))
    values |= {"usage": _from_json(values["usage"], Usage), "timings": _from_json(values["timings"], Timings)}
    return Message(**values | {"left_out": bool(values["left_out"])})


def _to_json(value: Usage | Timings | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _from_json(text: str | None, kind: type[Any]) -> Any:
    """None also for figures that were no numbers, such as a rate of 0 tokens in 0 seconds."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
