"""From a path to an open database: private files, newest tables, and a damaged file moved out of the way."""

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from ebbtide.app.store import search
from ebbtide.app.store.connection import connect, set_up, transaction
from ebbtide.app.store.database import Database, check_marker
from ebbtide.app.store.errors import StoreDamaged, StoreUnsaved, store_error
from ebbtide.app.store.schema import TABLES, migrate

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
PARTS = ("-wal", "-shm", "")
"""What a database consists of. The log is moved first: SQLite removes one that has no database."""
LOCK_S = 30.0


def open_database(path: Path) -> tuple[Database, str]:
    """The database at `path`, made if need be, and a note for the person, mostly empty.

    Raises StoreTooNew (the file is left as it is) and StoreError (the folder cannot be used).
    """
    _make_private(path)
    try:
        return _open(path), ""
    except StoreDamaged:
        aside = _replace_damaged(path)
        note = f"The chat store was damaged. It is kept as {aside}; this is a new one." if aside else ""
        return _open(path), note


def _open(path: Path) -> Database:
    connection = None
    try:
        connection = connect(path)
        migrate(connection)
        set_up(connection)
        if check_marker(path).exists():
            _look_over(connection)
            check_marker(path).unlink(missing_ok=True)
        connection.execute("SELECT id FROM chats LIMIT 1").fetchone()
        return Database(connection, path)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise store_error(error, str(path)) from error
        raise


def _look_over(connection: sqlite3.Connection) -> None:
    """Read all that people wrote, and have the index made anew, since damage to that is no loss.

    Raises sqlite3.DatabaseError or StoreDamaged for a page that makes no sense.
    """
    for table in TABLES:
        verdict = connection.execute(f"PRAGMA quick_check({table})").fetchone()[0]
        if verdict != "ok":
            raise StoreDamaged(f"The chat store is damaged: {verdict}", hint="It is moved aside.")
    with transaction(connection):
        search.drop_index(connection)


def _replace_damaged(path: Path) -> Path | None:
    """Move the file aside and return its new name; None if another process was quicker."""
    with _one_at_a_time(path):
        with suppress(StoreDamaged):
            _open(path).close()
            return None
        # Seconds, and the process too: a name that exists already would be overwritten on POSIX.
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        aside = path.with_name(f"{path.stem}-damaged-{stamp}-{os.getpid()}{path.suffix}")
        try:
            for suffix in PARTS:
                with suppress(FileNotFoundError):
                    Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        except OSError as error:
            raise StoreDamaged(
                f"The chat store {path} is damaged and cannot be moved: {error}",
                hint="Close other ebbtides, or move the file yourself; nothing was deleted.",
            ) from error
        check_marker(path).unlink(missing_ok=True)
        _make_private(path)
        return aside


def _one_at_a_time(path: Path) -> "closing[sqlite3.Connection]":
    """A lock between processes, on every system that SQLite knows; held until closed."""
    connection = connect(path.with_name(f"{path.stem}.lock"), LOCK_S)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        raise store_error(error, str(path)) from error
    return closing(connection)


def _make_private(path: Path) -> None:
    """The folder and the file, for their owner only. SQLite gives its companions the file's permissions."""
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))
    except OSError as error:
        raise StoreUnsaved(
            f"Chats cannot be kept in {path}: {error.strerror or error}",
            hint="Check the permissions of that folder, or set EBBTIDE_HOME; this chat is kept in memory.",
        ) from error
    with suppress(OSError):  # not ours to change; it can be used all the same
        path.parent.chmod(PRIVATE_FOLDER)
        path.chmod(PRIVATE_FILE)
