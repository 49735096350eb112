"""The one connection of a process, behind a lock; and what happens when the disk does not take a change.

Changes are functions of a connection that always do the same: ids and times are chosen before. So a change
that the disk refuses can be made on a copy in memory, and be repeated on disk when it takes changes again:

    disk:    ... ok ok FULL                      ok (all that was pending, then this one)
    memory:            copy, change, change, ...

It is the same where the file could not be opened in the first place: it is opened when the disk allows.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from ebbtide.app.store.connection import connect_memory, snapshot, transaction
from ebbtide.app.store.errors import StoreDamaged, StoreError, store_error
from ebbtide.app.store.schema import migrate

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]

RETRY_S = 5.0
"""So often a disk that refused is tried again, since a locked one keeps us waiting each time."""
COPY_LIMIT_BYTES = 256 << 20
"""A larger store is not copied to memory: its changes fail while the disk refuses them."""


def check_marker(path: Path) -> Path:
    """File that asks the next start to look the store at `path` over."""
    return Path(f"{path}-check")


class Database:
    """`disk` None: in memory only (`memory`, if there is something to begin with), for the reason `trouble`.
    It is moved to the disk as soon as `reopen` (raises StoreError) gives a connection; None = it never is.

    May be used from any thread.
    """

    def __init__(
        self,
        disk: sqlite3.Connection | None,
        path: Path,
        trouble: StoreError | None = None,
        memory: sqlite3.Connection | None = None,
        reopen: Callable[[], sqlite3.Connection] | None = None,
    ) -> None:
        self.path = path
        self.trouble = trouble
        """Why changes are kept in memory only at the moment; None when all is well."""
        self._lock = threading.RLock()
        self._disk, self._reopen = disk, reopen
        self._memory = memory
        self._pending: list[Change[object]] = []
        self._tried_at = time.monotonic()
        if disk is None and memory is None:
            self._memory = connect_memory()
            migrate(self._memory)

    @property
    def unsaved(self) -> int:
        """How many changes wait for the disk."""
        return len(self._pending)

    def read(self, query: Change[T]) -> T:
        """Run a query on one state of the store. Raises StoreError."""
        with self._lock:
            try:
                connection = self._now()
                with snapshot(connection):
                    return query(connection)
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def not_on_disk(self, query: Change[list[T]]) -> list[T]:
        """What `query` finds now, and does not find on disk. Empty while all is well."""
        with self._lock:
            if self._memory is None or self.trouble is None:
                return []
            found = query(self._memory)
            if self._disk is None:
                return found
            try:
                saved = set(query(self._disk))
            except sqlite3.Error:
                return found
            return [row for row in found if row not in saved]

    def write(self, change: Change[T]) -> T:
        """Make a change in one transaction: on disk, or in memory while that fails. Raises StoreError."""
        with self._lock:
            if self._pending and time.monotonic() - self._tried_at >= RETRY_S:
                self.save_pending()
            try:
                return self._apply(change)
            except sqlite3.Error as error:
                trouble = self._translated(error)
                if not trouble.keeps_in_memory or self._memory is not None:
                    raise trouble from error
                self._move_to_memory(trouble)
                return self._apply(change)

    def maintain(self, change: Change[T], *, in_transaction: bool = True) -> T | None:
        """Make a change that nobody would miss, such as to an index. Returns None where it cannot be made."""
        with self._lock, suppress(sqlite3.Error):
            connection = self._now()
            with transaction(connection) if in_transaction else nullcontext():
                return change(connection)
        return None

    def disk_bytes(self) -> int:
        """Size of the file and its log."""
        if self._disk is None:
            return 0
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def save_pending(self) -> bool:
        """Try to bring to disk what is in memory only. Returns whether all is on disk now."""
        with self._lock:
            self._tried_at = time.monotonic()
            self._open_again()
            if self._disk is None or self._memory is None:
                return self._disk is not None
            try:
                with transaction(self._disk):
                    for change in self._pending:
                        _repeat(self._disk, change)
            except sqlite3.Error as error:
                self.trouble = self._translated(error)
                return False
            self._leave_memory()
            return True

    def close(self) -> None:
        """Save what waits, if the disk takes it, and let the file go."""
        with self._lock:
            if self._pending:
                self.save_pending()
            for connection in (self._memory, self._disk):
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()

    def _now(self) -> sqlite3.Connection:
        """Where the newest state is."""
        connection = self._memory or self._disk
        assert connection is not None
        return connection

    def _apply(self, change: Change[T]) -> T:
        connection = self._now()
        with transaction(connection):
            result = change(connection)
        if self._memory is not None and (self._disk is not None or self._reopen is not None):
            self._pending.append(change)
        return result

    def _open_again(self) -> None:
        """Open what could not be opened at first, if it can be now."""
        if self._disk is None and self._reopen is not None:
            try:
                self._disk = self._reopen()
            except StoreError as error:
                self.trouble = error

    def detach(self) -> sqlite3.Connection:
        """The connection of a database that is on disk; this object is of no use any more."""
        assert self._disk is not None
        return self._disk

    def _move_to_memory(self, trouble: StoreError) -> None:
        """Go on with a copy in memory. Raises `trouble` if there can be none."""
        assert self._disk is not None
        memory = connect_memory()
        try:
            pages, page_bytes = (
                self._disk.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
            if pages * page_bytes > COPY_LIMIT_BYTES:
                raise trouble
            self._disk.backup(memory)
        except (sqlite3.Error, StoreError):
            memory.close()
            raise trouble from None
        self._memory, self.trouble = memory, trouble
        self._tried_at = time.monotonic()

    def _leave_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
        self._memory, self.trouble = None, None
        self._pending.clear()

    def _translated(self, error: sqlite3.Error) -> StoreError:
        trouble = store_error(error, str(self.path))
        if isinstance(trouble, StoreDamaged) and self._disk is not None:
            with suppress(OSError):
                check_marker(self.path).touch()
        return trouble


def _repeat(connection: sqlite3.Connection, change: Change[object]) -> None:
    """Make one pending change. One that has lost its object, a chat removed meanwhile, is dropped."""
    connection.execute("SAVEPOINT pending")
    try:
        change(connection)
    except (StoreError, sqlite3.IntegrityError):
        connection.execute("ROLLBACK TO pending")
    connection.execute("RELEASE pending")
