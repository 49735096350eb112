"""Small texts that must survive: what is not sent yet (drafts, queued questions), what was sent before, which
chat is open.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.app.store import chats
from ebbtide.app.store.records import Chat

Span = tuple[int, int]
"""Start and end of a part of a text, in characters."""
NEW_CHAT = ""
"""In the place of a chat's id: the chat that has not begun yet."""
_OPEN_CHAT = "open chat"


class Draft(NamedTuple):
    """What one window has not sent yet, and which parts of it are pastes, in the order of the text."""

    window: str
    text: str
    pastes: list[Span]


def save_draft(
    connection: sqlite3.Connection, chat_id: str, window: str, text: str, pastes: Sequence[Span], at_ms: int
) -> None:
    """An empty text removes the draft of that window."""
    if text:
        spans = " ".join(f"{start} {end}" for start, end in pastes)
        row = (chat_id, window, text, at_ms, spans)
        connection.execute("INSERT OR REPLACE INTO drafts VALUES (?, ?, ?, ?, ?)", row)
    else:
        connection.execute("DELETE FROM drafts WHERE chat_id = ? AND window = ?", (chat_id, window))


def drafts(connection: sqlite3.Connection, chat_id: str) -> list[Draft]:
    """Of all windows, the latest first."""
    rows = connection.execute(
        "SELECT window, text, pastes FROM drafts WHERE chat_id = ? ORDER BY updated_ms DESC, window",
        (chat_id,),
    )
    return [Draft(window, text, _spans(pastes)) for window, text, pastes in rows]


def take_draft(connection: sqlite3.Connection, chat_id: str, before: str, window: str) -> bool:
    """The draft of the window `before` is that of `window` from now on. False: it is not there any more."""
    done = connection.execute(
        "UPDATE OR IGNORE drafts SET window = ? WHERE chat_id = ? AND window = ?", (window, chat_id, before)
    )
    return done.rowcount > 0


def _spans(words: str) -> list[Span]:
    numbers = [int(word) for word in words.split() if word.isdecimal()]
    return list(zip(numbers[::2], numbers[1::2], strict=False))


def save_queue(connection: sqlite3.Connection, chat_id: str, questions: Sequence[str]) -> None:
    """In the place of those that waited before."""
    connection.execute("DELETE FROM queued WHERE chat_id = ?", (chat_id,))
    rows = [(chat_id, number, text) for number, text in enumerate(questions)]
    connection.executemany("INSERT INTO queued VALUES (?, ?, ?)", rows)


def load_queue(connection: sqlite3.Connection, chat_id: str) -> list[str]:
    """First to be sent first."""
    rows = connection.execute("SELECT text FROM queued WHERE chat_id = ? ORDER BY number", (chat_id,))
    return [str(row[0]) for row in rows]


def history(connection: sqlite3.Connection, limit: int, containing: str) -> list[str]:
    """What the person has written in all chats, the latest first, each text once."""
    rows = connection.execute("SELECT content FROM messages WHERE role = 'user' ORDER BY id DESC")
    wanted = containing.casefold()
    found: dict[str, None] = {}
    for (text,) in rows:
        if len(found) >= limit:
            break
        if wanted in text.casefold():
            found.setdefault(text)
    return list(found)


def set_open_chat(connection: sqlite3.Connection, chat_id: str) -> None:
    """`NEW_CHAT`: none."""
    connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (_OPEN_CHAT, chat_id))


def open_chat(connection: sqlite3.Connection) -> Chat | None:
    """None also when the chat was removed since."""
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (_OPEN_CHAT,)).fetchone()
    return chats.find(connection, row[0]) if row else None
