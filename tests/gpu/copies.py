"""How fast host memory gets to a card: plain copies, and blocks as the engine sends them."""

import ctypes
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from ebbtide.engine.device.emulate import Emulation
from ebbtide.engine.device.place import Place, emulated
from tests.gpu.ground import Ground
from tests.gpu.shapes import MODELS, QWEN, tiny
from tests.gpu.timing import Call, copy_rate, seconds

SLOTS = 8
"""As the engine has."""
EMULATED_GB_S = 3.0, 12.0
SLOWEST = 0.9
"""Of an emulated rate."""


def check_copies(ground: Ground) -> None:
    """Device, pinned and ordinary memory; blocks of each model through staging and scatter."""
    ground.row("copy within the card", copy_rate(ground) / 1e9, "GB/s", note="read and written")
    for size in (1 << 16,) if ground.dry else (1 << 20, 256 << 20):
        for pinned in (True, False):
            with ground.case(f"host to card, {size >> 10} KiB"):
                _host_copy(ground, size, pinned)
    with ground.case("blocks"):
        _blocks(ground)
    with ground.case("an emulated slot"):
        _emulated(ground)


def _host_copy(ground: Ground, size: int, pinned: bool) -> None:
    source = torch.zeros(size, dtype=torch.uint8)
    source = source.pin_memory() if pinned and not ground.dry else source
    target = torch.empty(size, dtype=torch.uint8, device=ground.device)
    rate = size / seconds(ground, lambda: target.copy_(source, non_blocking=True))
    kind = "pinned" if pinned else "ordinary"
    ground.row(f"host to card, {kind}, {size >> 10} KiB", rate / 1e9, "GB/s")


def _blocks(ground: Ground) -> None:
    place, notice = ground.find_place("auto" if ground.dry else "cuda:0")
    if place is None:
        raise RuntimeError(notice or "no card")
    for model in [tiny(MODELS[0])] if ground.dry else MODELS:
        for layout, what in zip(model.expert("Q4_0"), ("gate and up", "down"), strict=True):
            name = f"{model.name} {what}, {layout.span_bytes >> 10} KiB"
            with ground.case(name):
                _block(ground, place, name, layout.page_count, layout.page_bytes)
    place.close()


def _emulated(ground: Ground) -> None:
    """Blocks of a Qwen3-30B's size as in a slower slot: never faster, and hardly slower."""
    layout, _ = (tiny(QWEN) if ground.dry else QWEN).expert("Q4_0")
    for rate in EMULATED_GB_S:
        place, notice = ground.find_place("auto" if ground.dry else "cuda:0")
        if place is None:
            raise RuntimeError(notice or "no card")
        there = emulated(place, Emulation(pcie_bytes_per_s=int(rate * 1e9)))
        send, nbytes = _sender(ground, there, layout.page_count, layout.page_bytes)
        found = nbytes / _wall(partial(send, False), 1 if ground.dry else 9) / 1e9
        goal = "" if ground.dry else f"{SLOWEST * rate:.1f} to {rate}"
        passed = None if ground.dry else SLOWEST * rate <= found <= rate
        ground.row(f"copies at {rate} GB/s, emulated", found, "GB/s", goal=goal, passed=passed)
        there.close()


def _block(ground: Ground, place: Place, name: str, pages: int, page_bytes: int) -> None:
    send, sent = _sender(ground, place, pages, page_bytes)
    for scatter, how in ((False, "copies alone"), (True, "with scatter")):
        taken = _wall(partial(send, scatter), 1 if ground.dry else 9)
        ground.row(f"{name}, {how}", sent / taken / 1e9, "GB/s")


def _sender(ground: Ground, place: Place, pages: int, page_bytes: int) -> tuple[Callable[[bool], None], int]:
    """(sends blocks and waits: one copy of a block and its addresses each, then perhaps a scatter; bytes)"""
    lanes = place.lanes
    nbytes = pages * page_bytes
    slots = 1 if ground.dry else SLOTS
    hosts = [lanes.pinned(nbytes + 8 * pages) for _ in range(slots)]
    staged = [lanes.device(nbytes + 8 * pages) for _ in range(slots)]
    target = lanes.device(2 * nbytes)
    for host in hosts:
        places = (ctypes.c_int64 * pages)(*(target + 2 * page * page_bytes for page in range(pages)))
        ctypes.memmove(host + nbytes, places, 8 * pages)

    def send(scatter: bool) -> None:
        for host, slot in zip(hosts, staged, strict=True):
            lanes.upload(host, slot, nbytes + 8 * pages)
            if scatter:
                lanes.scatter(slot, pages, page_bytes)
        lanes.copied().wait()

    return send, slots * nbytes


def _wall(call: Call, rounds: int) -> float:
    """Median time until the host knows that it is done."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
