"""A driver that goes on where the first frame ends: on the same alternate screen, without clearing it."""

import termios
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

from ebbtide.app.first_frame import ENTER, take_over
from ebbtide.app.input_thread import Alarm, read_input
from ebbtide.app.paste_parser import PasteParser
from ebbtide.app.screen_stream import screen_stream

HIDE_CURSOR, TELL_FOCUS = "\x1b[?25l", "\x1b[?1004h"


class TakingOver(LinuxDriver):
    """Without a first frame, and when it starts again after a suspension, it is an ordinary driver."""

    _is_on_screen = False
    _set_up: list[Any] | None = None
    """How the terminal was set for the program."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.exit_event: Alarm = Alarm()
        stream = screen_stream()
        if stream is not None:
            self._file = stream

    def start_application_mode(self) -> None:
        before = take_over()
        self._is_on_screen = before is not None
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if before is not None:
            self.attrs_before = before
        with suppress(termios.error):
            self._set_up = termios.tcgetattr(self.fileno)

    def _sigtstp_application(self, *_: object) -> None:
        """What a handler of a signal interrupts may hold the lock of the queue for what is written."""
        with suppress(RuntimeError):  # the application has ended
            self._loop.call_soon_threadsafe(super()._sigtstp_application)

    def _sigcont_application(self, *_: object) -> None:
        """Where the program was stopped without notice (SIGSTOP), nothing was given up: to start again would
        make a second reader, and each key go to one of them. But a shell has set the terminal its own way.
        """
        if self._key_thread is None or not self._key_thread.is_alive():
            super()._sigcont_application()
            return
        with suppress(RuntimeError):  # the application has ended
            self._loop.call_soon_threadsafe(self._show_again)

    def _show_again(self) -> None:
        """After SIGCONT; not in its handler, for the same reason."""
        if self._set_up is not None:
            with suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self._set_up)
        self.write(f"{ENTER}{HIDE_CURSOR}{TELL_FOCUS}")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self.flush()
        self._app.call_later(self._app.refresh, layout=True)

    def _run_input_thread(self) -> None:
        """A terminal that has hung up cannot be read; somebody else looks after that (`lost_terminal`)."""
        with suppress(OSError):
            read_input(self.fileno, PasteParser(self._debug), self.exit_event, self.process_message)

    def write(self, data: str) -> None:
        """To switch to the alternate screen would clear it, if it is shown already."""
        if self._is_on_screen and data == ENTER:
            self._is_on_screen = False
        else:
            super().write(data)
