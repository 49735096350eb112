"""The middle tier of a machine with a card: experts in the process's own memory, in front of the disk.

A block is kept when it is first read, for as long as the allowance lasts; what is kept stays: every block was
worth keeping once, and none of those is read from the disk again. The file is read around the page cache
where the file system allows it, so the model is never in memory twice.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence

from ebbtide.engine.memory.anonymous import U8, anonymous
from ebbtide.engine.memory.slow import ExpertSource, Kind

Target = tuple[int, int]
BlockSize = Callable[[int, Kind], tuple[int, int]]
"""(layer, kind) -> (bytes in pages of what is kept of a block, index of its last extent)

At a width below the full one that is not the whole block: what is never read is not kept either."""


class HostTier:
    """An `ExpertSource` over another. `allowance_bytes`: the most that kept blocks may hold."""

    def __init__(self, source: ExpertSource, size: BlockSize, allowance_bytes: int) -> None:
        self._source, self._size, self._allowance_bytes = source, size, allowance_bytes
        self._kept: dict[tuple[int, int, Kind], U8] = {}
        self._locks: dict[tuple[int, int, Kind], threading.Lock] = {}
        self._books = threading.Lock()
        self.kept_bytes = 0

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[Target],
    ) -> int:
        """See `ExpertSource.read_expert`; bytes read from the disk count, copies from memory do not."""
        at = (layer, expert, kind)
        with self._lock(at):
            block, read = self._block(at)
        if block is None:
            return self._source.read_expert(layer, expert, kind, first_extent, last_extent, targets)
        if first_extent:
            raise ValueError("a kept block is given from its first extent on")
        start = int(block.ctypes.data)
        for address, nbytes in targets:
            ctypes.memmove(address, start, nbytes)
            start += nbytes
        return read

    def _block(self, at: tuple[int, int, Kind]) -> tuple[U8 | None, int]:
        """(the block in memory, or None where there is no room; bytes read for it now)"""
        if at in self._kept:
            return self._kept[at], 0
        layer, expert, kind = at
        nbytes, last = self._size(layer, kind)
        block = self._room_for(nbytes)
        if block is None:
            return None, 0
        try:
            read = self._source.read_expert(layer, expert, kind, 0, last, [(int(block.ctypes.data), nbytes)])
        except BaseException:
            self._give_back(nbytes)
            raise
        self._kept[at] = block
        return block, read

    def _room_for(self, nbytes: int) -> U8 | None:
        """Memory for a block; None when the allowance, or the system, has no more."""
        with self._books:
            if self.kept_bytes + nbytes > self._allowance_bytes:
                return None
            try:
                block = anonymous(nbytes)
            except OSError:
                self._allowance_bytes = self.kept_bytes
                return None
            self.kept_bytes += nbytes
            return block

    def _give_back(self, nbytes: int) -> None:
        with self._books:
            self.kept_bytes -= nbytes

    def _lock(self, at: tuple[int, int, Kind]) -> threading.Lock:
        """One reader fetches a block, the others wait for it."""
        with self._books:
            return self._locks.setdefault(at, threading.Lock())
