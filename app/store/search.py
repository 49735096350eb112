"""Search over titles and messages: an FTS5 index where SQLite has one, reading everything where it has not.

The index is brought up to date after an answer and before a search, not while an answer is written: each
message has a flag `indexed` that every change clears. The index keeps its own copy of the text, because rows
of an index without one can only be removed by giving it the old text again.
"""

import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from ebbtide.app.safe_text import whole_text
from ebbtide.app.store.records import Hit
from ebbtide.app.store.snippets import snippet, title_snippet

MODULE = "fts5"
BATCH = 250
"""Messages that are indexed in one transaction; about 30 ms of work."""
MAX_TERMS = 16
MAX_TERM_LENGTH = 100
_WORDS = {"L", "N"}
"""Unicode classes (first letter) of the characters that FTS5's tokenizer takes into words."""
_UNSPACED = (
    "CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN",
)  # fmt: skip
"""Scripts (as in Unicode names) that join words: to the tokenizer a whole clause is one word."""
_BY_INDEX = """
    SELECT m.chat_id, c.title, m.id, m.role, m.created_ms, m.content
    FROM (
        SELECT rowid AS id FROM message_index WHERE message_index MATCH ? ORDER BY rowid DESC LIMIT ?
    ) AS found
    JOIN messages AS m ON m.id = found.id JOIN chats AS c ON c.id = m.chat_id
    ORDER BY m.id DESC
"""
"""Not the best first: to rank them, all matches of the first letter that is typed would have to be read."""
_BY_READING = """
    SELECT m.chat_id, c.title, m.id, m.role, m.created_ms, m.content
    FROM messages AS m JOIN chats AS c ON c.id = m.chat_id ORDER BY m.id DESC
"""


def has_index(connection: sqlite3.Connection) -> bool:
    """The index is there, and this SQLite can use it."""
    with suppress(sqlite3.DatabaseError):
        connection.execute("SELECT rowid FROM message_index LIMIT 1").fetchone()
        return True
    return False


def create_index(connection: sqlite3.Connection) -> bool:
    """Make the index, empty. Returns whether it can be used.

    Raises sqlite3.OperationalError where SQLite is built without FTS5.
    """
    tokenizer = "unicode61 remove_diacritics 2"
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING {MODULE}(content, tokenize = '{tokenizer}')"
    )
    return has_index(connection)


def drop_index(connection: sqlite3.Connection) -> None:
    """Forget the index, if that can be done; then all messages are to be indexed again."""
    with suppress(sqlite3.DatabaseError):  # no FTS5, or damaged so much that it cannot be dropped
        connection.execute("DROP TABLE IF EXISTS message_index")
        connection.execute("UPDATE messages SET indexed = 0")


def is_behind(connection: sqlite3.Connection) -> bool:
    """Messages have changed since they were indexed."""
    return connection.execute("SELECT 1 FROM messages WHERE indexed = 0 LIMIT 1").fetchone() is not None


def index_batch(connection: sqlite3.Connection) -> int:
    """Index some of the messages that have changed; returns how many."""
    behind = "SELECT id, content FROM messages WHERE indexed = 0 LIMIT ?"
    rows = connection.execute(behind, (BATCH,)).fetchall()
    ids = [(row[0],) for row in rows]
    connection.executemany("DELETE FROM message_index WHERE rowid = ?", ids)
    connection.executemany("INSERT INTO message_index (rowid, content) VALUES (?, ?)", rows)
    connection.executemany("UPDATE messages SET indexed = 1 WHERE id = ?", ids)
    return len(rows)


def forget(connection: sqlite3.Connection, message_id: int) -> None:
    connection.execute("DELETE FROM message_index WHERE rowid = ?", (message_id,))


def forget_removed(connection: sqlite3.Connection) -> None:
    """Take out of the index what is no message any more, words included."""
    connection.execute("DELETE FROM message_index WHERE rowid NOT IN (SELECT id FROM messages)")
    connection.execute("INSERT INTO message_index (message_index) VALUES ('optimize')")


def search(connection: sqlite3.Connection, query: str, limit: int, *, use_index: bool) -> list[Hit]:
    """Chats whose title, and messages whose text, have all words of `query`. Any text is a query.

    Titles first, then messages, of each the latest first. By the index, each word of the query has to begin a
    word of the text; by reading, it may be anywhere.
    """
    terms = terms_of(query)
    if not terms:
        return []
    hits = list(islice(_titles(connection, terms), limit))
    left = limit - len(hits)
    if use_index and not any(map(_needs_reading, terms)):
        rows = connection.execute(_BY_INDEX, (match_expression(terms), left))
        return hits + [_hit(row, terms) for row in rows]
    return hits + list(islice(_by_reading(connection, terms), left))


def terms_of(query: str) -> list[str]:
    """The words of a query, as typed; what is longer or more than anybody types is cut."""
    words = whole_text(query).replace("\0", " ").split()
    return [word[:MAX_TERM_LENGTH] for word in words[:MAX_TERMS]]


def match_expression(terms: list[str]) -> str:
    """In FTS5's language, each term a quoted phrase that may go on: nothing in it is an operator."""
    return " ".join('"{}"*'.format(term.replace('"', '""')) for term in terms)


def _needs_reading(term: str) -> bool:
    """The index has nothing for it: signs only (`->`, emoji), or a script without spaces."""
    if not any(unicodedata.category(char)[0] in _WORDS for char in term):
        return True
    return any(unicodedata.name(char, "").startswith(_UNSPACED) for char in term)


def _titles(connection: sqlite3.Connection, terms: list[str]) -> Iterator[Hit]:
    rows = connection.execute("SELECT id, title, updated_ms FROM chats ORDER BY updated_ms DESC, id DESC")
    for chat_id, title, updated_ms in rows:
        if _has_all(title, terms):
            yield Hit(chat_id, title, None, "", updated_ms, title_snippet(title, terms))


def _by_reading(connection: sqlite3.Connection, terms: list[str]) -> Iterator[Hit]:
    for row in connection.execute(_BY_READING):
        if _has_all(row[-1], terms):
            yield _hit(row, terms)


def _hit(row: tuple[Any, ...], terms: list[str]) -> Hit:
    chat_id, title, message_id, role, created_ms, content = row
    return Hit(chat_id, title, message_id, role, created_ms, snippet(content, terms))


def _has_all(text: str, terms: list[str]) -> bool:
    folded = text.casefold()
    return all(term.casefold() in folded for term in terms)
