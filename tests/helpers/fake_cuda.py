"""A CUDA driver library in Python: cards, memory and refusals as a test wants them."""

import ctypes
import itertools
import threading
import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ebbtide.engine.memory.anonymous import U8, anonymous
from tests.helpers.late_queues import LateQueues, Mark

GIB = 1 << 30
OUT_OF_MEMORY = 2
NO_CONTEXT = 201


@dataclass
class FakeCard:
    name: str = "GeForce RTX 3060"
    uuid: str = "0f0e0d0c-0b0a-0908-0706-050403020100"
    capability: tuple[int, int] = (8, 6)
    total: int = 12 * GIB
    others: int = 1 * GIB
    """What other programs hold."""
    integrated: bool = False


def _set(reference: Any, value: int | bytes) -> None:
    reference._obj.value = value


@dataclass
class FakeCuda:
    """What `ctypes.CDLL("libcuda.so.1")` would be; functions return a CUresult."""

    cards: list[FakeCard] = field(default_factory=lambda: [FakeCard()])
    version: int = 12080
    refusals: dict[str, int] = field(default_factory=dict)
    """Function name -> the CUresult it returns instead of working."""
    refuse: Callable[[str], int] = lambda name: 0
    """Asked for every call of a function: the CUresult it returns instead of working, or 0."""
    calls: list[str] = field(default_factory=list)
    current: int = -1
    blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Address -> (card, bytes)."""
    memory: dict[int, U8] = field(default_factory=dict)
    """The blocks themselves, in the process's own memory."""
    queues: LateQueues = field(default_factory=lambda: LateQueues(0))
    """Streams, by handle."""
    events: dict[int, Mark | None] = field(default_factory=dict)
    handles: Any = field(default_factory=lambda: itertools.count(0x100))
    threads: threading.local = field(default_factory=threading.local)
    """`context` on those that have made one current."""
    pinned: dict[int, Any] = field(default_factory=dict)
    pinned_quota: int = 4 * GIB

    def opener(self) -> Callable[[str], Any]:
        return lambda name: self

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        deed = getattr(self, f"_{name}", None)
        if deed is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            return self.refusals.get(name) or self.refuse(name) or deed(*arguments) or 0

        return call

    def free_bytes(self, card: int) -> int:
        own = sum(size for place, size in self.blocks.values() if place == card)
        return self.cards[card].total - self.cards[card].others - own

    def _cuInit(self, flags: int) -> None:  # noqa: N802 - the library's own names
        assert flags == 0

    def _cuDriverGetVersion(self, out: Any) -> None:  # noqa: N802
        _set(out, self.version)

    def _cuDeviceGetCount(self, out: Any) -> None:  # noqa: N802
        _set(out, len(self.cards))

    def _cuDeviceGet(self, out: Any, index: int) -> int:  # noqa: N802
        _set(out, index)
        return 0 if index < len(self.cards) else 101

    def _cuDeviceGetName(self, out: Any, size: int, device: Any) -> None:  # noqa: N802
        out.value = self.cards[device.value].name.encode()[: size - 1]

    def _cuDeviceTotalMem_v2(self, out: Any, device: Any) -> None:  # noqa: N802
        _set(out, self.cards[device.value].total)

    def _cuDeviceGetUuid_v2(self, out: Any, device: Any) -> None:  # noqa: N802
        out[:] = uuids.UUID(self.cards[device.value].uuid).bytes

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: Any) -> None:  # noqa: N802
        card = self.cards[device.value]
        _set(out, {75: card.capability[0], 76: card.capability[1], 18: int(card.integrated)}[attribute])

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: Any) -> None:  # noqa: N802
        _set(out, 0xC0DE + device.value)

    def _cuCtxSetCurrent(self, context: Any) -> None:  # noqa: N802
        self.threads.context = context.value
        self.current = context.value - 0xC0DE

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> int:  # noqa: N802
        if self.current < 0:
            return NO_CONTEXT
        _set(free, self.free_bytes(self.current))
        _set(total, self.cards[self.current].total)
        return 0

    def _cuMemAlloc_v2(self, out: Any, size: Any) -> int:  # noqa: N802
        if size.value > self.free_bytes(self.current):
            return OUT_OF_MEMORY
        memory = anonymous(size.value)
        memory[: 1 << 20] = 0xEE  # a card's memory is not zeroed
        address = int(memory.ctypes.data)
        self.blocks[address], self.memory[address] = (self.current, size.value), memory
        _set(out, address)
        return 0

    def _cuMemFree_v2(self, address: Any) -> int:  # noqa: N802
        self.memory.pop(address.value, None)
        return 0 if self.blocks.pop(address.value, None) else 1

    def _cuMemHostAlloc(self, out: Any, size: Any, flags: int) -> int:  # noqa: N802
        held = sum(len(buffer) for buffer in self.pinned.values())
        if held + size.value > self.pinned_quota:
            return OUT_OF_MEMORY
        buffer = (ctypes.c_ubyte * size.value)()
        self.pinned[ctypes.addressof(buffer)] = buffer
        _set(out, ctypes.addressof(buffer))
        return 0

    def _cuMemFreeHost(self, address: Any) -> int:  # noqa: N802
        return 0 if self.pinned.pop(address.value, None) is not None else 1

    # --- streams and events: work is done late (`LateQueues`)

    def _cuStreamCreate(self, out: Any, flags: int) -> None:  # noqa: N802
        _set(out, next(self.handles))

    def _cuStreamDestroy_v2(self, stream: Any) -> None:  # noqa: N802
        pass

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:  # noqa: N802
        mark = self.events[event.value]
        assert mark is not None, "an event that was never recorded"
        self.queues.hold(stream.value, mark)

    def _cuEventCreate(self, out: Any, flags: int) -> None:  # noqa: N802
        handle = next(self.handles)
        self.events[handle] = None
        _set(out, handle)

    def _cuEventRecord(self, event: Any, stream: Any) -> None:  # noqa: N802
        self.events[event.value] = self.queues.mark(stream.value)

    def _cuEventSynchronize(self, event: Any) -> int:  # noqa: N802
        if not hasattr(self.threads, "context"):
            return NO_CONTEXT
        mark = self.events[event.value]
        if mark is not None:
            mark.wait()
        return 0

    def _cuEventDestroy_v2(self, event: Any) -> int:  # noqa: N802
        if not hasattr(self.threads, "context"):
            return NO_CONTEXT
        return 1 if self.events.pop(event.value, self) is self else 0

    def _cuCtxSynchronize(self) -> None:  # noqa: N802
        self.queues.drain()

    def _cuMemcpyHtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> None:  # noqa: N802
        self._later_move(target.value, source.value, size.value, stream)

    def _cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> None:  # noqa: N802
        self._later_move(target.value, source.value, size.value, stream)

    def _later_move(self, target: int, source: int, size: int, stream: Any) -> None:
        self.queues.add(stream.value, lambda: ctypes.memmove(target, source, size))

    def _cuMemsetD8Async(self, target: Any, value: int, size: Any, stream: Any) -> None:  # noqa: N802
        place, count = target.value, size.value
        self.queues.add(stream.value, lambda: ctypes.memset(place, value, count))

    def _cuGetErrorString(self, code: int, out: Any) -> int:  # noqa: N802
        _set(
            out, {2: b"out of memory", 100: b"no CUDA-capable device is detected"}.get(code, b"unknown error")
        )
        return 0
