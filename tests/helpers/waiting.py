"""Waiting for what another process, thread or timer does. The bound ends a hang; it measures nothing."""

import time
from collections.abc import Callable, Iterable

import psutil

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as `condition` holds; `what` names it if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"still not after {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.02)


def wait_for_end(processes: Iterable[psutil.Process]) -> None:
    """Until none of `processes` runs any more."""
    for process in processes:
        wait_until(lambda process=process: has_ended(process), f"the end of {process}")  # type: ignore[misc]


def has_ended(process: psutil.Process) -> bool:
    """Where nobody reaps orphans (a container without an init) a dead process stays as a zombie."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
