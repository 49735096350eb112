"""What an application does by the clock: the timers that run, of all its screens and widgets."""

from collections.abc import Iterator
from typing import Any

from textual.app import App
from textual.timer import Timer

LEAST_REST_S = 1.0
"""A timer that comes more often than this is none of an idle application."""


def quick_timers(app: App[Any]) -> list[str]:
    """Those that come more often than once in LEAST_REST_S, the animator's too, each with its owner."""
    return [
        f"{owner}: {timer.name} every {timer._interval:.3f} s"
        for owner, timer in _timers(app)
        if _runs(timer) and timer._interval < LEAST_REST_S
    ]


def _timers(app: App[Any]) -> Iterator[tuple[object, Timer]]:
    yield "animator", app.animator._timer
    nodes = [node for screen in app.screen_stack for node in screen.walk_children(with_self=True)]
    for node in (app, *nodes):
        for timer in list(node._timers):
            yield node, timer


def _runs(timer: Timer) -> bool:
    return timer._task is not None and not timer._task.done() and timer._active.is_set()
