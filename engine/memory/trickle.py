"""Reads that no computation waits for: the planes that widths are raised by."""

import threading
from collections import deque
from collections.abc import Sequence

from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.reads import BlockRead, read_block
from ebbtide.engine.memory.slow import ExpertSource


class Trickle:
    """Reads that nobody waits for: one block after another, and any of them can be taken back."""

    def __init__(self, source: ExpertSource, reads: Sequence[BlockRead]) -> None:
        self._source = source
        self._turn = threading.Condition()
        self._waiting = deque(reads)
        self._current: BlockRead | None = None
        self._read_bytes = 0
        self._error: EbbtideError | None = None

    def run(self) -> None:
        """Read all; the mover's thread does it. The first failure ends it."""
        while self.read_one():
            pass

    def read_one(self) -> bool:
        """Read the next block; False when there is none."""
        read = self._next()
        if read is None:
            return False
        try:
            nbytes = read_block(self._source, read, read.targets)
        except EbbtideError as error:
            self._end_read(0, error)
        else:
            self._end_read(nbytes, None)
        return True

    def _next(self) -> BlockRead | None:
        with self._turn:
            self._current = self._waiting.popleft() if self._waiting else None
            return self._current

    def _end_read(self, nbytes: int, error: EbbtideError | None) -> None:
        with self._turn:
            self._current = None
            self._read_bytes += nbytes
            if error is not None:
                self._error = error
                self._waiting.clear()
            self._turn.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to read."""
        with self._turn:
            return not self._waiting and self._current is None

    def withdraw(self, layer: int, expert: int) -> None:
        """See to it that nothing more is written into an expert's pages; waits for one read at most."""

        def is_read(read: BlockRead | None) -> bool:
            return read is not None and (read.layer, read.expert) == (layer, expert)

        with self._turn:
            self._waiting = deque(read for read in self._waiting if not is_read(read))
            self._turn.wait_for(lambda: not is_read(self._current))

    def wait(self) -> None:
        """Return when nothing is left to read."""
        with self._turn:
            self._turn.wait_for(lambda: not self._waiting and self._current is None)

    def finish(self) -> int:
        """Wait for all; bytes read. Raises the first EbbtideError."""
        self.wait()
        with self._turn:
            if self._error is not None:
                raise self._error
            return self._read_bytes

    def settle(self) -> None:
        """Give up what is not begun and wait for what is."""
        with self._turn:
            self._waiting.clear()
            self._turn.wait_for(lambda: self._current is None)
