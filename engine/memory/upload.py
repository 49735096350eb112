"""The mover where pages are on a card: blocks are read into staging memory and copied from there.

Order is kept by the card's queues alone (`engine/device/lanes.py`), the host waits for nothing but reads:

- copies of a transfer begin after all computation added before it, so a page that was given up is not
  overwritten while a kernel may still read it;
- computation added after `wait` or `settle` begins after those copies.
"""

import ctypes
import queue
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from ebbtide.engine.device.lanes import Lanes
from ebbtide.engine.device.staging import Slot, StagingRing
from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.mover import READERS
from ebbtide.engine.memory.reads import BlockRead, read_block
from ebbtide.engine.memory.slow import ExpertSource
from ebbtide.engine.memory.trickle import Trickle

ADDRESS_BYTES = 8


class _Arrived(NamedTuple):
    """A block in its slot, or why there is none: not even a slot where the card gives no answer."""

    read: BlockRead | None
    slot: Slot | None
    nbytes: int
    error: BaseException | None


class UploadTransfer:
    """See `Transfer`."""

    def __init__(
        self, source: ExpertSource, ring: StagingRing, lanes: Lanes, reads: Sequence[BlockRead]
    ) -> None:
        self._source, self._ring, self._lanes = source, ring, lanes
        self._queue = deque(reads)
        self._open = len(reads)
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._tasks: list[Future[None]] = []

    def start(self, pool: ThreadPoolExecutor, readers: int) -> None:
        """Let readers fill slots; they stop when none is free until `wait` has sent some off."""
        self._lanes.copying_waits(self._lanes.computed())
        self._tasks = [pool.submit(self._read_all) for _ in range(min(readers, self._open))]

    def wait(self) -> int:
        """See `Transfer.wait`: every copy is added to its queue, none need be done."""
        nbytes = 0
        while self._open:
            arrived = self._arrived.get()
            self._open -= 1
            if arrived.error is not None:
                self._give_back(arrived)
                raise arrived.error
            self._send(arrived)
            nbytes += arrived.nbytes
        self._lanes.computing_waits(self._lanes.copied())
        return nbytes

    def settle(self) -> None:
        """See `Transfer.settle`."""
        self._queue.clear()
        # A reader that waits for a slot gets one of those that have arrived.
        while not all(task.done() for task in self._tasks):
            self._give_back_arrived()
            wait(self._tasks, timeout=0.01)
        self._give_back_arrived()
        self._open = 0
        self._lanes.computing_waits(self._lanes.copied())

    def _give_back_arrived(self) -> None:
        while not self._arrived.empty():
            self._give_back(self._arrived.get())

    def _give_back(self, arrived: _Arrived) -> None:
        if arrived.slot is not None:
            self._ring.give(arrived.slot)

    def _send(self, arrived: _Arrived) -> None:
        assert arrived.slot is not None and arrived.read is not None
        slot, targets = arrived.slot, arrived.read.targets
        page_bytes = targets[0][1]
        end = len(targets) * page_bytes
        addresses = (ctypes.c_int64 * len(targets))(*(address for address, _ in targets))
        ctypes.memmove(slot.host + end, addresses, ctypes.sizeof(addresses))
        self._lanes.upload(slot.host, slot.device, end + ctypes.sizeof(addresses))
        self._lanes.scatter(slot.device, len(targets), page_bytes)
        self._ring.give(slot, busy=self._lanes.copied())

    def _read_all(self) -> None:
        while True:
            try:
                slot = self._ring.take()
            except BaseException as error:  # as in `_read`
                self._queue.clear()
                self._arrived.put(_Arrived(None, None, 0, error))
                return
            try:
                read = self._queue.popleft()
            except IndexError:
                self._ring.give(slot)
                return
            self._arrived.put(self._read(read, slot))

    def _read(self, read: BlockRead, slot: Slot) -> _Arrived:
        page_bytes = read.targets[0][1]
        places = [(slot.host + index * page_bytes, page_bytes) for index in range(len(read.targets))]
        try:
            return _Arrived(read, slot, read_block(self._source, read, places), None)
        except BaseException as error:  # raised again by `wait`, on the thread that wants the block
            self._queue.clear()
            return _Arrived(read, slot, 0, error)


class UploadMover:
    """See `Moves`. `ring` has slots of `slot_bytes_for` the largest block at least."""

    def __init__(
        self, source: ExpertSource, ring: StagingRing, lanes: Lanes, *, readers: int = READERS
    ) -> None:
        self._source, self._ring, self._lanes, self._readers = source, ring, lanes, readers
        self._pool = ThreadPoolExecutor(readers, thread_name_prefix="ebbtide-reader")

    def start(self, reads: Sequence[BlockRead]) -> UploadTransfer:
        """See `Moves.start`. One transfer at a time: the last one must be waited for or settled."""
        transfer = UploadTransfer(self._source, self._ring, self._lanes, reads)
        transfer.start(self._pool, self._readers)
        return transfer

    def trickle(self, reads: Sequence[BlockRead]) -> Trickle:
        """See `Moves.trickle`: not built. A second transfer beside the first would need slots of its own, and
        `HostTier` gives blocks from their first extent on.
        """
        raise UsageError(
            "Widths cannot change while a model is on a card in this version.",
            hint="Load it with the width that you want, or give --device cpu.",
        )

    def close(self) -> None:
        """See `Moves.close`."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def slot_bytes_for(pages: int, page_bytes: int) -> int:
    """A slot for a block of so many pages: the pages and their addresses."""
    return pages * (page_bytes + ADDRESS_BYTES)
