"""When the terminal window is closed: what is still drawn would fill a queue that nobody empties.

The process that leads the terminal's session is told by SIGHUP; any other (started by another program on a
terminal of its own making) is told nothing, and only finds that the terminal has hung up.
"""

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty
from typing import Any

from textual.app import App

from ebbtide.app.signals import EXIT_TERMINATED

GRACE_S = 5.0
"""The application may take this long to end in order; then the process is ended."""
LOOK_S = 2.0
STREAMS = (0, 1, 2)


class TerminalWatch:
    """Looks after the terminal of `app` on a thread of its own: the application's may be stuck in a write."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._terminals = [stream for stream in STREAMS if _is_terminal(stream)]
        self._over = threading.Event()
        self._ended = False

    @property
    def is_gone(self) -> bool:
        """Whether a terminal that was there at the start has hung up: its modes cannot be read any more. One
        that was not there any more even then is gone too.
        """
        return not self._terminals or any(not _is_terminal(stream) for stream in self._terminals)

    def start(self) -> None:
        """Look until `stop`."""
        if sys.platform != "win32":
            threading.Thread(target=self._run, name="terminal-watch", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def end(self, code: int) -> None:
        """Exit, on the application's thread; without a terminal nothing is written any more, and the end does
        not wait for ever.
        """
        if self.is_gone:
            self._let_go(code)
        self._app.exit(return_code=code)

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            if self.is_gone:
                self._let_go(EXIT_TERMINATED)
                with suppress(RuntimeError):  # its loop has ended by itself
                    self._app.call_later(self.end, EXIT_TERMINATED)
                return

    def _let_go(self, code: int) -> None:
        """Nothing is written any more, and who waits to write goes on."""
        if self._ended:
            return
        self._ended = True
        _close_terminals(self._terminals)
        timer = threading.Timer(GRACE_S, os._exit, (code,))
        timer.daemon = True
        timer.start()
        driver = self._app._driver
        if driver is None:
            return
        with suppress(AttributeError):
            driver.write = _nowhere  # type: ignore[method-assign]
        waiting = getattr(getattr(driver, "_writer_thread", None), "_queue", None)
        with suppress(Empty):
            while waiting is not None:
                waiting.get_nowait()


def _close_terminals(streams: Sequence[int]) -> None:
    """Put nothing in the place of terminals that have hung up: Python writes its buffers at its end, and an
    error there would be its exit code.
    """
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in streams:
            os.dup2(nothing, stream)
        os.close(nothing)


def _is_terminal(stream: int) -> bool:
    try:
        return os.isatty(stream)
    except OSError:
        return False


def _nowhere(data: str) -> None:
    """Takes what would have been drawn."""
