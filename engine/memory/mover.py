"""Reader threads that fill pages from the slow tier while the step thread computes."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Protocol

from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.reads import BlockRead, read_block
from ebbtide.engine.memory.slow import ExpertSource
from ebbtide.engine.memory.trickle import Trickle

READERS = 3
"""Random reads of expert size reach the disk's rate with 2-4 threads; more gain nothing."""


class Transfer(Protocol):
    """Blocks on their way into pages. The pages may be used otherwise once `settle` has returned."""

    def wait(self) -> int:
        """Return when the pages may be computed with; bytes read. Raises the first EbbtideError."""
        ...

    def settle(self) -> None:
        """Give up what is not begun and see to it that nothing more is written into the pages."""
        ...


class Moves(Protocol):
    """Something that brings blocks into pages: `Mover`, or `UploadMover` where pages are on a card."""

    def start(self, reads: Sequence[BlockRead]) -> Transfer:
        """Begin all; returns at once."""
        ...

    def trickle(self, reads: Sequence[BlockRead]) -> Trickle:
        """Begin to read one block after another beside all that `start` begins; returns at once.

        Raises UsageError where that is not built: widths cannot be raised there.
        """
        ...

    def close(self) -> None:
        """Wait for running reads and end all threads."""
        ...


class Flight:
    """Reads under way. Their pages may be released once `settle` has returned, or `wait` without an error."""

    def __init__(self, source: ExpertSource, reads: Sequence[BlockRead]) -> None:
        self._source = source
        self._queue = deque(reads)
        self._tasks: list[Future[int]] = []

    def start(self, pool: ThreadPoolExecutor, readers: int) -> None:
        """Let readers take blocks from the queue: one task each, since handing over work is not free."""
        self._tasks = [pool.submit(self._drain) for _ in range(min(readers, len(self._queue)))]

    def wait(self) -> int:
        """Read along until every block is read; bytes read. Raises the first EbbtideError."""
        own = self._drain()
        self.settle()
        return own + sum(task.result() for task in self._tasks if not task.cancelled())

    def settle(self) -> None:
        """Give up what is not begun and block until what is begun has ended, well or badly."""
        self._queue.clear()
        wait([task for task in self._tasks if not task.cancel()])

    def _read_next(self) -> int:
        read = self._queue.popleft()
        return read_block(self._source, read, read.targets)

    def _drain(self) -> int:
        read = 0
        try:
            with suppress(IndexError):  # the queue is empty
                while True:
                    read += self._read_next()
        except EbbtideError:
            self._queue.clear()
            raise
        return read


class Mover:
    """A few reader threads over one source."""

    def __init__(self, source: ExpertSource, *, readers: int = READERS) -> None:
        self._source, self._readers = source, readers
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="ebbtide-reader")
        self._behind = ThreadPoolExecutor(1, thread_name_prefix="ebbtide-mover")

    def start(self, reads: Sequence[BlockRead]) -> Flight:
        """Begin all reads; returns at once. The first failure ends the flight early."""
        flight = Flight(self._source, reads)
        flight.start(self._pool, self._readers)
        return flight

    def trickle(self, reads: Sequence[BlockRead]) -> Trickle:
        """See `Moves.trickle`."""
        trickle = Trickle(self._source, reads)
        self._behind.submit(trickle.run)
        return trickle

    def close(self) -> None:
        """Wait for running reads and end the threads."""
        for pool in (self._pool, self._behind):
            pool.shutdown(wait=True, cancel_futures=True)
