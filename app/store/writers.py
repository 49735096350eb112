"""Who writes the answers that are partial: told apart from answers whose writer was killed.

A writer is a process, named by machine, number and start: a number alone is given to another process later.
"""

import os
import platform
import sqlite3
from functools import cache

START_TOLERANCE_S = 2.0
"""A start is read against the machine's clock, which may have been put right since."""


@cache
def this_process() -> str:
    """The name of this process."""
    pid = os.getpid()
    return f"{pid} {_start_s(pid) or 0.0:.2f} {platform.node()}"


def is_living(writer: str) -> bool:
    """Whether that process still runs, on this machine. False where nobody can tell."""
    pid, _, rest = writer.partition(" ")
    start, _, node = rest.partition(" ")
    if node != platform.node():
        return False
    try:
        start_s, now_s = float(start), _start_s(int(pid))
    except ValueError:
        return False
    return now_s is not None and (0.0 in (start_s, now_s) or abs(now_s - start_s) <= START_TOLERANCE_S)


def _start_s(pid: int) -> float | None:
    """Seconds since 1970; 0 where the system does not tell; None for a process that is not there."""
    import psutil  # after the first paint

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.NoSuchProcess:
        return None
    except (psutil.Error, OSError):
        return 0.0


def begin(connection: sqlite3.Connection, message_id: int, writer: str) -> None:
    connection.execute("INSERT OR REPLACE INTO writers VALUES (?, ?)", (message_id, writer))


def end(connection: sqlite3.Connection, message_id: int) -> None:
    connection.execute("DELETE FROM writers WHERE message_id = ?", (message_id,))


def of_chat(connection: sqlite3.Connection, chat_id: str) -> dict[int, str]:
    """By the ids of the answers that they write."""
    rows = connection.execute(
        "SELECT message_id, writer FROM writers JOIN messages ON id = message_id WHERE chat_id = ?",
        (chat_id,),
    )
    return {int(row[0]): str(row[1]) for row in rows}
