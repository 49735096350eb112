"""Keeps what a child process writes to standard error: the last lines in memory, all of it in a log file."""

import contextlib
import threading
from collections import deque
from pathlib import Path
from typing import IO

TAIL_LINES = 40
END_WAIT_S = 1.0
"""How long the end of the stream is waited for: a process that was left behind may hold it open."""
MAX_LOG_BYTES = 1 << 20
"""A log longer than this is moved to `NAME.old` when the next process starts."""


class StderrLog:
    """Drains `stream` on a thread of its own until it ends."""

    def __init__(self, stream: IO[bytes], log_path: Path | None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._file = _open_log(log_path)
        self._thread = threading.Thread(target=self._drain, name="engine-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        for line in self._stream:
            self._lines.append(line.decode("utf-8", "replace").rstrip())
            if self._file is not None:
                with contextlib.suppress(OSError):  # a full disk must not stop the engine
                    self._file.write(line)

    def tail(self) -> tuple[str, ...]:
        """The last lines, once the stream has ended or a second has passed."""
        self._thread.join(END_WAIT_S)
        return tuple(self._lines)

    def close(self) -> None:
        self._thread.join(END_WAIT_S)
        if self._file is not None and not self._thread.is_alive():
            self._file.close()


def _open_log(path: Path | None) -> IO[bytes] | None:
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
            path.replace(path.with_name(path.name + ".old"))
        return path.open("ab", buffering=0)  # on a full disk, a buffer could not even be closed
    except OSError:
        return None  # no log is no reason not to chat
