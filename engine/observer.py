"""Asks the operating system about memory once a second, on a thread of its own, while somebody watches."""

import os
import threading
from collections.abc import Callable

import psutil

from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.device.driver import DriverError
from ebbtide.engine.memory.observed import observe
from ebbtide.engine.messages import Machine

INTERVAL_S = 1.0


FindCard = Callable[[], tuple[str, CardMemory] | None]


def look_at_machine(find_card: FindCard = lambda: None) -> Machine:
    """All figures now; `find_card` tells name and memory of the card that the model is on."""
    seen = observe()
    cgroup = seen.cgroup
    name, card = _card(find_card)
    return Machine(
        process_bytes=seen.process_bytes,
        process_swap_bytes=seen.process_swap_bytes,
        app_bytes=_resident_bytes(os.getppid()),
        available_bytes=seen.available_bytes,
        total_bytes=seen.total_bytes,
        cgroup_limit_bytes=cgroup.limit_bytes if cgroup is not None else None,
        cgroup_usage_bytes=cgroup.usage_bytes if cgroup is not None else None,
        card=name,
        card_own_bytes=card.own_bytes if card is not None else None,
        card_free_bytes=card.free_bytes if card is not None else None,
        card_total_bytes=card.total_bytes if card is not None else None,
    )


def _card(find: FindCard) -> tuple[str, CardMemory | None]:
    """A card that is closed or lost meanwhile has no figures: the step thread says what that means."""
    try:
        return find() or ("", None)
    except DriverError:
        return "", None


def _resident_bytes(pid: int) -> int | None:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


class Observer:
    """`emit` is called on the observer's thread, which begins with the first viewer and rests without one."""

    def __init__(
        self, emit: Callable[[Machine], None], look: Callable[[], Machine] = look_at_machine
    ) -> None:
        self._emit, self._look = emit, look
        self._watched = threading.Event()
        self._thread: threading.Thread | None = None

    def set_rate(self, every_s: float) -> None:
        """0 = nobody watches any more."""
        if every_s <= 0:
            self._watched.clear()
            return
        self._watched.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while self._watched.wait():
                self._emit(self._look())
                pause.wait(INTERVAL_S)
        except OSError:
            pass  # the pipe is gone, and the process with it
