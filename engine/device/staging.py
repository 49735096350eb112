"""The staging ring: pieces of host memory that blocks are read into, and their counterparts on the card.

Copies from pinned memory run by themselves at the bus's full rate; from ordinary memory the driver makes them
in small pieces while the host waits. Pinned memory has a quota, so the ring takes what it gets.
"""

import queue
from dataclasses import dataclass
from typing import Protocol

from ebbtide.engine.device.lanes import Marker
from ebbtide.engine.sizes import format_bytes

SLOTS = 8
"""Enough that reading, copying and scattering overlap; more only take memory."""


class StagingMemory(Protocol):
    """Gives pieces that last as long as itself. Raises MemoryError where there are none (left)."""

    def pinned(self, nbytes: int) -> int: ...

    def ordinary(self, nbytes: int) -> int: ...

    def device(self, nbytes: int) -> int: ...


@dataclass
class Slot:
    """One block on its way. `busy`: what must be passed before `host` may be written again."""

    host: int
    device: int
    busy: Marker | None = None


class StagingRing:
    """Up to `slots` slots of `slot_bytes`; fewer, or one of ordinary memory, where memory is short.

    Raises MemoryError when the card has no room for a single slot.
    """

    def __init__(self, memory: StagingMemory, slot_bytes: int, slots: int = SLOTS) -> None:
        self.slot_bytes, self.notice = slot_bytes, ""
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        self.slots = 0
        for host in _host_pieces(memory, slot_bytes, slots):
            try:
                device = memory.device(slot_bytes)
            except MemoryError:
                if self.slots == 0:
                    raise
                break
            self.slots += 1
            self._free.put(Slot(host, device))
        self.is_pinned = True
        if self.slots == 0:
            self.is_pinned, self.slots = False, 1
            self._free.put(Slot(memory.ordinary(slot_bytes), memory.device(slot_bytes)))
            self.notice = "The system gives no pinned memory: copies to the card are slower."
        elif self.slots < slots:
            size = format_bytes(self.slots * slot_bytes)
            self.notice = f"Only {size} of staging memory could be had: copies to the card may be slower."

    @property
    def device_bytes(self) -> int:
        """What the ring holds of the card's memory."""
        return self.slots * self.slot_bytes

    def take(self) -> Slot:
        """A slot whose host memory may be written. Blocks until there is one; for reader threads.

        What a marker raises is passed on; the slot stays in the ring, for whoever else waits.
        """
        slot = self._free.get()
        if slot.busy is not None:
            try:
                slot.busy.wait()
            except BaseException:
                self._free.put(slot)
                raise
            slot.busy = None
        return slot

    def give(self, slot: Slot, busy: Marker | None = None) -> None:
        """Return a slot; it is used again once `busy` is passed."""
        slot.busy = busy
        self._free.put(slot)


def _host_pieces(memory: StagingMemory, nbytes: int, count: int) -> list[int]:
    """As many pinned pieces as can be had, up to `count`."""
    pieces: list[int] = []
    try:
        while len(pieces) < count:
            pieces.append(memory.pinned(nbytes))
    except MemoryError:
        return pieces
    return pieces
