"""Reader threads that fill pages from the slow tier while the step thread computes."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import NamedTuple

from ebbtide.engine.errors import EbbtideError, ModelError
from ebbtide.engine.memory.slow import ExpertSource, Kind

READERS = 3
"""Random reads of expert size reach the disk's rate with 2-4 threads; more gain nothing."""


class BlockRead(NamedTuple):
    """One block to read, from its first extent to `last_extent`, into (address, bytes) targets."""

    layer: int
    expert: int
    kind: Kind
    last_extent: int
    targets: list[tuple[int, int]]


class Flight:
    """Reads under way. Their pages must not be released before `wait` has returned or raised."""

    def __init__(self, futures: Sequence[Future[int]]) -> None:
        self._futures = futures

    def wait(self) -> int:
        """Block until every read has ended; bytes read. Raises the first EbbtideError among them."""
        self.settle()
        return sum(future.result() for future in self._futures)

    def settle(self) -> None:
        """Block until every read has ended, well or badly."""
        wait(self._futures)


class Mover:
    """A few reader threads over one source."""

    def __init__(self, source: ExpertSource, *, readers: int = READERS) -> None:
        self._source, self._readers = source, readers
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="ebbtide-reader")

    def start(self, reads: Sequence[BlockRead]) -> Flight:
        """Begin all reads; returns at once. The first failure ends the flight early."""
        queue = deque(reads)
        # One task per reader, not per block: handing work to a sleeping thread costs more than a shared list.
        return Flight([self._pool.submit(self._drain, queue) for _ in range(min(self._readers, len(reads)))])

    def _drain(self, queue: deque[BlockRead]) -> int:
        read = 0
        try:
            with suppress(IndexError):  # the list is empty
                while True:
                    read += self._read(queue.popleft())
        except EbbtideError:
            queue.clear()
            raise
        return read

    def _read(self, read: BlockRead) -> int:
        try:
            return self._source.read_expert(
                read.layer, read.expert, read.kind, 0, read.last_extent, read.targets
            )
        except EbbtideError:
            raise
        except Exception as error:
            raise ModelError(
                f"Reading expert {read.expert} of layer {read.layer} ({read.kind}) failed: {error}.",
                hint="Check that the model file is still there and its disk works, then load it again.",
            ) from error

    def close(self) -> None:
        """Wait for running reads and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
