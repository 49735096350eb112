"""What all full-screen applications of ebbtide have in common: stylesheet, themes, and how they end."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from ebbtide.app.lost_terminal import TerminalWatch
from ebbtide.app.palettes import theme_name
from ebbtide.app.screen_stream import is_terminal
from ebbtide.app.signals import EXIT_INTERRUPTED, EXIT_TERMINATED
from ebbtide.app.themes import install_themes

if TYPE_CHECKING:
    from textual.driver import Driver

CODES = {"SIGTERM": EXIT_TERMINATED, "SIGHUP": EXIT_TERMINATED, "SIGINT": EXIT_INTERRUPTED}


class TerminalApp(App[None]):
    """Ends in order, with the right code, on a signal and when its terminal is closed."""

    CSS_PATH = Path(__file__).with_name("theme.tcss")
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, theme: str) -> None:
        super().__init__()
        install_themes(self, theme_name(theme))
        self._watch_terminal = TerminalWatch(self)

    def get_driver_class(self) -> "type[Driver]":
        """Textual's own, or one that goes on from the first frame where there may be one."""
        usual = super().get_driver_class()
        if sys.platform == "win32" or os.environ.get("TEXTUAL_DRIVER"):
            return usual
        from ebbtide.app.take_over import TakingOver  # there is no such terminal on Windows

        return TakingOver

    def _print(self, text: str, stderr: bool = False) -> None:
        """What is printed would spoil the screen, unless it goes to a file."""
        super()._print(text, stderr)
        stream = sys.__stderr__ if stderr else sys.__stdout__
        if stream is not None and not self.is_headless and not is_terminal(stream):
            with suppress(OSError, ValueError):  # a full disk is no reason to stop
                stream.write(text)
                stream.flush()

    def on_mount(self) -> None:
        """Called beside the handlers of subclasses. Without handlers, signals would leave the terminal in the
        application's mode.
        """
        loop = asyncio.get_running_loop()
        for name, code in CODES.items():
            with suppress(
                AttributeError, NotImplementedError, RuntimeError, ValueError
            ):  # Windows, or a thread
                loop.add_signal_handler(getattr(signal, name), self._watch_terminal.end, code)
        if not self.is_headless:
            self._watch_terminal.start()

    def on_unmount(self) -> None:
        self._watch_terminal.stop()
