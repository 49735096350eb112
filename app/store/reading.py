"""A store that can only be read, its home being read-only: a copy of it in memory."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from ebbtide.app.store.connection import connect_memory
from ebbtide.app.store.database import Database
from ebbtide.app.store.errors import StoreError, store_error
from ebbtide.app.store.schema import migrate


def read_database(
    path: Path, trouble: StoreError, reopen: Callable[[], sqlite3.Connection] | None = None
) -> Database:
    """What is in the file, in memory; `trouble` is why nothing can be saved, and `reopen` as in `Database`.
    Raises StoreError.
    """
    memory = connect_memory()
    try:
        _copy(path, memory)
        migrate(memory)
    except (sqlite3.Error, OSError) as error:
        memory.close()
        if isinstance(error, sqlite3.Error):
            raise store_error(error, str(path)) from error
        raise trouble from error
    except StoreError:
        memory.close()
        raise
    return Database(None, path, trouble, memory, reopen)


def _copy(path: Path, memory: sqlite3.Connection) -> None:
    """SQLite cannot always read a write-ahead log where it may write nothing beside it; it can in a copy."""
    try:
        _backup(path, memory, "mode=ro")
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if not log.exists() or not log.stat().st_size:
            _backup(path, memory, "immutable=1")
            return
        with TemporaryDirectory(prefix="ebbtide-") as folder:
            copy = Path(folder) / path.name
            shutil.copyfile(path, copy)
            shutil.copyfile(log, f"{copy}-wal")
            _backup(copy, memory, "mode=rw")


def _backup(path: Path, memory: sqlite3.Connection, how: str) -> None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as disk:
        disk.backup(memory)
