"""When the terminal window is closed: what is still drawn would fill a queue that nobody empties."""

import os
import sys
import threading
from contextlib import suppress
from typing import Any

from textual.app import App

GRACE_S = 5.0
"""The application may take this long to end in order; then the process is ended."""


def terminal_is_gone() -> bool:
    """Whether the terminal of standard output has hung up: its modes cannot be read any more."""
    if sys.platform == "win32" or sys.__stdout__ is None:
        return False
    import termios

    try:
        termios.tcgetattr(sys.__stdout__.fileno())
    except (OSError, ValueError, termios.error):
        return True
    return False


def end_after_hang_up(app: App[Any], code: int) -> None:
    """Exit; without a terminal nothing is written any more, and the end does not wait for ever."""
    if terminal_is_gone():
        if app._driver is not None:
            with suppress(AttributeError):
                app._driver.write = _nowhere  # type: ignore[method-assign]
        timer = threading.Timer(GRACE_S, os._exit, (code,))
        timer.daemon = True
        timer.start()
    app.exit(return_code=code)


def _nowhere(data: str) -> None:
    """Takes what would have been drawn."""
