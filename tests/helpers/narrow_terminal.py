"""A terminal of a certain width, as a stream; what was written to it can be read back."""

import fcntl
import os
import pty
import select
import struct
import termios
from typing import Self


class NarrowTerminal:
    """Use as a context manager."""

    def __init__(self, columns: int) -> None:
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8", newline="\n")
        self._seen = b""
        self.resize(columns)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def written(self) -> str:
        """All of it so far; the terminal's own carriage returns at line ends are left out."""
        while select.select([self._ours], [], [], 0)[0]:
            self._seen += os.read(self._ours, 1 << 16)
        return self._seen.decode().replace("\r\n", "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        os.close(self._ours)
