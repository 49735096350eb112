"""The card's memory as everybody sees it: slabs go back at once, and what others take is noticed."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ebbtide.engine.device.card_memory import CardMemory, card_memory
from ebbtide.engine.device.driver import CudaDriver
from ebbtide.engine.device.nvml import Nvml
from ebbtide.engine.device.place import Place
from tests.gpu.ground import Ground
from tests.gpu.holder import MINE

SLAB_BYTES = 32 << 20
SLABS = 8
UNIT_BYTES = 2 << 20
"""What the driver takes and gives at once."""
RETURNED = f"<= {UNIT_BYTES >> 20}"
CONTEXT_BYTES = 1 << 30
"""More than a second process's context takes."""


class Eyes:
    """What the driver and NVML say of the card that a place is on."""

    def __init__(self, ground: Ground, place: Place) -> None:
        self._ground, self._card = ground, place.card
        self.driver = ground.driver()
        if ground.dry:
            self.driver.use(0)
        self._nvml = Nvml(object()) if ground.dry else Nvml()

    @property
    def cuda_free(self) -> int:
        return self.driver.memory()[0]

    @property
    def nvml_free(self) -> int | None:
        return self._nvml.memory(self._card.uuid).free_bytes

    def memory(self) -> CardMemory:
        """As the engine sees it."""
        return card_memory(self._card, self._nvml.memory(self._card.uuid), self.driver.memory)


def check_memory(ground: Ground) -> None:
    """Slabs, a second process, and what is left when all is closed."""
    place, notice = ground.find_place("auto" if ground.dry else "cuda:0")
    if place is None:
        ground.row("all", passed=False, note=notice or "no card")
        return
    eyes = Eyes(ground, place)
    ground.row("own memory at the start", place.overhead_bytes / 2**20, "MiB", note=place.notice)
    with ground.case("slabs"):
        _slabs(ground, place, eyes)
    with ground.case("pinned memory"):
        _pinned(ground, eyes.driver)
    with ground.case("a second process"):
        _second(ground, eyes)
    with ground.case("governor"):
        _governor(ground)
    place.close()


def _slabs(ground: Ground, place: Place, eyes: Eyes) -> None:
    """Each release is seen by the driver when the call returns."""
    place.lanes.release(place.lanes.allocate(SLAB_BYTES))  # the driver loads what it needs for it
    before, nvml_before = eyes.cuda_free, eyes.nvml_free
    slabs = [place.lanes.allocate(SLAB_BYTES) for _ in range(SLABS)]
    ground.wait()
    taken = before - eyes.cuda_free
    ground.row(
        "taken by slabs",
        taken / 2**20,
        "MiB",
        goal=f">= {SLABS * SLAB_BYTES >> 20}",
        passed=taken >= SLABS * SLAB_BYTES,
    )
    late, spent = 0, 0.0
    for number, slab in enumerate(slabs, 1):
        began = time.perf_counter()
        place.lanes.release(slab)
        spent = max(spent, time.perf_counter() - began)
        held = (SLABS - number) * SLAB_BYTES
        late = max(late, before - eyes.cuda_free - held)
    ground.row(
        "not returned by its call",
        late / 2**20,
        "MiB",
        goal=RETURNED,
        passed=late - UNIT_BYTES <= taken - SLABS * SLAB_BYTES,
    )
    missing = before - eyes.cuda_free
    ground.row("not returned in the end", missing / 2**20, "MiB", goal=RETURNED, passed=missing <= UNIT_BYTES)
    ground.row("slowest release", 1e6 * spent, "us")
    if nvml_before is None or eyes.nvml_free is None:
        ground.row("not returned (NVML)", note="NVML says nothing")
    else:
        behind = nvml_before - eyes.nvml_free
        ground.row("not returned (NVML)", behind / 2**20, "MiB", goal=RETURNED, passed=behind <= UNIT_BYTES)


def _pinned(ground: Ground, driver: CudaDriver) -> None:
    """How much of it a staging ring can have."""
    size = (1 << 20) if ground.dry else (256 << 20)
    began = time.perf_counter()
    driver.free_pinned(driver.allocate_pinned(size))
    ground.row(
        "pinned memory, taken and given", 1e3 * (time.perf_counter() - began), "ms", note=f"{size >> 20} MiB"
    )


def _second(ground: Ground, eyes: Eyes) -> None:
    """Another program takes memory: it is seen, and seen to go."""
    before = eyes.memory()
    assert before.free_bytes is not None
    size = min(2 << 30, before.free_bytes // 4)
    with _holding(ground, size):
        during = _when(
            lambda: eyes.memory(), lambda now: (now.free_bytes or 0) <= (before.free_bytes or 0) - size
        )
        lost = before.free_bytes - (during.free_bytes or 0)
        seen = size <= lost <= size + CONTEXT_BYTES
        ground.row("taken by others", lost / 2**20, "MiB", goal=f">= {size >> 20}", passed=seen)
        if during.others_bytes is None or before.others_bytes is None:
            ground.row("others, by program", note=during.notice or "the driver does not tell")
        else:
            named = during.others_bytes - before.others_bytes
            ground.row(
                "others, by program", named / 2**20, "MiB", goal=f">= {size >> 20}", passed=named >= size
            )
    after = _when(lambda: eyes.memory(), lambda now: (now.free_bytes or 0) >= (before.free_bytes or 0))
    missing = before.free_bytes - (after.free_bytes or 0)
    ground.row(
        "still taken when it ended", missing / 2**20, "MiB", goal=RETURNED, passed=missing <= UNIT_BYTES
    )


def _governor(ground: Ground) -> None:
    if importlib.util.find_spec("ebbtide.engine.memory.governor") is None:
        ground.row("budget follows others", note="not measured: nothing changes a budget while it runs yet")
    else:
        ground.row("budget follows others", passed=False, note="there is a governor now: measure it here")


@contextmanager
def _holding(ground: Ground, nbytes: int) -> Iterator[None]:
    """A second process that holds so much."""
    script = Path(__file__).with_name("check_card.py")
    command = [sys.executable, str(script), "--hold", str(nbytes), *(["--dry-run"] if ground.dry else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        said = process.stdout.readline().strip()
        if said != MINE:
            raise RuntimeError(f"the second process (of {os.getpid()}) did not begin: {said!r}")
        if ground.dry:
            ground.host_card().library.cards[0].others += nbytes
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(30)
            if ground.dry:
                ground.host_card().library.cards[0].others -= nbytes


def _when(ask: Callable[[], CardMemory], done: Callable[[CardMemory], bool]) -> CardMemory:
    """What is said once it is so, or after ten seconds."""
    end = time.monotonic() + 10
    found = ask()
    while not done(found) and time.monotonic() < end:
        time.sleep(0.05)
        found = ask()
    return found
