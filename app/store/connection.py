"""Connections to SQLite: how they are set up, and transactions that end whole or not at all."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_S = 2.0
"""How long a change waits for another process. Transactions take milliseconds, so longer means stuck."""
LOG_LIMIT_BYTES = 4 << 20
"""The write-ahead log is cut back to this after it had to grow."""


def connect(path: Path, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Open or create the file. Raises sqlite3.Error; for a file that is no database only on first use."""
    return sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)


def connect_memory() -> sqlite3.Connection:
    """A database that goes with the process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def set_up(connection: sqlite3.Connection) -> None:
    """Write-ahead log where the file system can have one; deleted text is overwritten with zeros.

    With the log and `synchronous = NORMAL` a commit costs no disk flush. What was committed survives the
    death of the process. A power cut may take the last moments and never damages the file.
    """
    try:
        has_log = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal"
    except sqlite3.OperationalError:  # a network folder; or another process is switching right now
        has_log = False
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is read from one state of the database."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside happens, or nothing of it. The write lock is taken at once: no deadlock later."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back already, on a full disk for instance
            connection.execute("ROLLBACK")
        raise


def cut_log(connection: sqlite3.Connection) -> None:
    """Write the log into the file and empty it, so that no older state can be read from it."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
