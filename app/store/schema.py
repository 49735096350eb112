"""The tables, as numbered migrations: `PRAGMA user_version` says how many of them a file has seen."""

import sqlite3

from ebbtide.app.store.connection import transaction
from ebbtide.app.store.errors import StoreTooNew

FIRST = (
    """
    CREATE TABLE chats (
        id TEXT PRIMARY KEY NOT NULL,
        title TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        model TEXT NOT NULL,
        preset TEXT NOT NULL,
        system TEXT NOT NULL,
        head_id INTEGER
    )
    """,
    "CREATE INDEX chats_by_update ON chats (updated_ms, id)",
    # No cascade from parent to child: SQLite cascades at most 1,000 levels deep. A parent is older than its
    # children, so there can be no cycle.
    """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY,
        chat_id TEXT NOT NULL REFERENCES chats (id),
        parent_id INTEGER CHECK (parent_id < id),
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        thinking TEXT NOT NULL,
        state TEXT NOT NULL,
        finish_reason TEXT NOT NULL,
        model TEXT NOT NULL,
        usage TEXT,
        timings TEXT,
        left_out INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        indexed INTEGER NOT NULL DEFAULT 0,
        UNIQUE (chat_id, id),
        FOREIGN KEY (chat_id, parent_id) REFERENCES messages (chat_id, id)
    )
    """,
    "CREATE INDEX messages_by_parent ON messages (chat_id, parent_id, id)",
    "CREATE INDEX messages_of_user ON messages (id) WHERE role = 'user'",
    "CREATE INDEX messages_not_indexed ON messages (id) WHERE indexed = 0",
    # chat_id '' is the draft of the chat that has not begun yet.
    """
    CREATE TABLE drafts (
        chat_id TEXT PRIMARY KEY NOT NULL,
        text TEXT NOT NULL,
        updated_ms INTEGER NOT NULL
    )
    """,
    "CREATE TABLE marks (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
)

SECOND = (
    # Who gave a chat its title is not known of older chats: as if a person had, so that none is lost.
    "ALTER TABLE chats ADD COLUMN is_named INTEGER NOT NULL DEFAULT 0",
    "UPDATE chats SET is_named = 1 WHERE title <> ''",
    # Questions that wait for the answer before them, first to be sent first.
    """
    CREATE TABLE queued (
        chat_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (chat_id, number)
    )
    """,
)

THIRD = (
    # Which process writes an answer that is partial; a row goes with the end of its answer.
    """
    CREATE TABLE writers (
        message_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
        writer TEXT NOT NULL
    )
    """,
)

FOURTH = (
    # Which parts of a draft are pastes that stand in the prompt as chips: "start end start end ...".
    "ALTER TABLE drafts ADD COLUMN pastes TEXT NOT NULL DEFAULT ''",
)

FIFTH = (
    # A draft is its window's: two windows with one chat write two. '' is a window that nobody knows any more.
    """
    CREATE TABLE window_drafts (
        chat_id TEXT NOT NULL,
        window TEXT NOT NULL,
        text TEXT NOT NULL,
        updated_ms INTEGER NOT NULL,
        pastes TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (chat_id, window)
    )
    """,
    "INSERT INTO window_drafts SELECT chat_id, '', text, updated_ms, pastes FROM drafts",
    "DROP TABLE drafts",
    "ALTER TABLE window_drafts RENAME TO drafts",
)

SIXTH = (
    # Which child of a message was shown last, where it is not the newest.
    """
    CREATE TABLE viewed (
        parent_id INTEGER PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
        child_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE
    )
    """,
    "CREATE INDEX viewed_by_child ON viewed (child_id)",
)

TABLES = ("chats", "messages", "drafts", "marks", "queued", "writers", "viewed")
"""What people would miss, other than the search index."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)
"""Statements that lead from version n to n + 1. Never change one that was released: append."""


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Bring the tables to the newest version, all steps or none. Raises StoreTooNew, and sqlite3.Error."""
    if _version(connection, migrations) == len(migrations):
        return
    with transaction(connection):
        # Read again: another process may have been quicker.
        for number in range(_version(connection, migrations), len(migrations)):
            for statement in migrations[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")


def _version(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(migrations):
        raise StoreTooNew(
            f"The chat store has version {version}, and this ebbtide knows versions up to {len(migrations)}",
            hint="Update ebbtide, or set EBBTIDE_HOME to another folder. The file was left as it is.",
        )
    return version
