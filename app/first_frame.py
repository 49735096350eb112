"""The first frame: the empty chat is on the terminal before Textual is imported, and Textual paints over it.

While it stands, keys are neither echoed nor lost: the terminal keeps them for the prompt. Ctrl+C still ends
the program. Whoever draws it restores the terminal, unless a driver takes it over (`take_over`).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from ebbtide.app.first_inks import color_depth, inks_of
from ebbtide.app.first_rows import LEAST_COLUMNS, LEAST_ROWS, LOW_ROWS, Ink, Row, first_rows
from ebbtide.app.palettes import theme_name
from ebbtide.app.screen_stream import is_terminal, screen_stream

ENTER = "\x1b[?1049h"
"""The alternate screen, cleared."""
_HIDE_CURSOR, _NO_WRAP, _WRAP, _LEAVE = "\x1b[?25l", "\x1b[?7l", "\x1b[?7h", "\x1b[0m\x1b[?1049l\x1b[?25h"
_attributes_before: list[Any] | None = None
"""Of the terminal's line, while a frame stands that no driver has taken over."""


@contextmanager
def first_frame(theme: str, model: str, *, compact: bool = False) -> Iterator[None]:
    """Show it, if this terminal is one where that goes well; on every way out the terminal is as it was."""
    global _attributes_before
    if not _is_possible(theme, compact):
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin.fileno())
    try:
        _attributes_before = before
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, _quiet(before))
        _write(ENTER + _HIDE_CURSOR + _NO_WRAP + _picture(theme, model, compact))
        yield
    finally:
        if take_over() is not None:
            with suppress(OSError, ValueError):  # a terminal that is gone
                _write(_WRAP + _LEAVE)
        with suppress(OSError, termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


def take_over() -> list[Any] | None:
    """The terminal is the caller's from now on. Returns what the attributes of its line were; None without a
    frame.
    """
    global _attributes_before
    before, _attributes_before = _attributes_before, None
    return before


def _is_possible(theme: str, compact: bool) -> bool:
    """Only where it looks as what follows, and where that is seen at all."""
    if sys.platform == "win32" or os.environ.get("TEXTUAL_DRIVER") or color_depth() is None:
        return False
    stream = screen_stream()
    if stream is None or not all(is_terminal(each) for each in (sys.__stdin__, sys.__stdout__, stream)):
        return False
    size = os.get_terminal_size(stream.fileno())
    if size.columns < LEAST_COLUMNS or size.lines < (LOW_ROWS if compact else LEAST_ROWS):
        return False
    return stream.encoding.lower().replace("-", "") == "utf8"


def _picture(theme: str, model: str, compact: bool) -> str:
    size = os.get_terminal_size(_stream().fileno())
    inks = inks_of(theme_name(theme), color_depth() or 24, no_color="NO_COLOR" in os.environ)
    rows = first_rows(size.columns, size.lines, model, compact=compact)
    return "".join(f"\x1b[{number};1H{_drawn(row, inks)}" for number, row in enumerate(rows, 1))


def _drawn(row: Row, inks: dict[Ink, str]) -> str:
    return "".join(inks[ink] + text for text, ink in row if text)


def _quiet(attributes: list[Any]) -> list[Any]:
    """No echo, no lines, as with Textual; of the keys that send signals only Ctrl+C."""
    import termios

    quiet = [*attributes[:6], list(attributes[6])]
    quiet[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
    quiet[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 1, 0
    off = os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE")
    quiet[6][termios.VSUSP] = quiet[6][termios.VQUIT] = bytes([off])
    return quiet


def _write(text: str) -> None:
    stream = _stream()
    stream.write(text)
    stream.flush()


def _stream() -> TextIO:
    stream = screen_stream()
    assert stream is not None
    return stream
