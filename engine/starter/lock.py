"""One builder at a time: an advisory file lock that the system frees when its process ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOOK_S = 0.2


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Waits until no other process holds the lock; `waiting` is called again and again meanwhile."""
    with path.open("w") as file:
        while not _has(file):
            waiting()
            time.sleep(LOOK_S)
        yield


def _has(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
