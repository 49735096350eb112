"""Keys that do something only when they are pressed twice."""

import time

DOUBLE_KEY_S = 2.0
"""Ctrl+C twice, Esc twice: within this time. A terminal behind tmux delays each Esc by half a second."""


class DoublePress:
    """Remembers one key; another one makes it forget."""

    def __init__(self) -> None:
        self._key, self._at = "", 0.0

    def forget(self) -> bool:
        """Something else was done; whether a key was waiting for its second press."""
        was_waiting, self._key = bool(self._key), ""
        return was_waiting

    def is_second(self, key: str) -> bool:
        """Whether the key was pressed a moment ago too."""
        now = time.monotonic()
        again = key == self._key and now - self._at < DOUBLE_KEY_S
        self._key, self._at = ("", 0.0) if again else (key, now)
        return again
