"""What another program writes into ours: `cat notes.txt | ebbtide run`."""

import select
import sys
from contextlib import suppress

from ebbtide.app.console import note
from ebbtide.app.safe_text import safe
from ebbtide.engine.errors import UsageError

PATIENCE_S = 3.0
"""After so long without a byte, people are told what is waited for."""


def piped_text() -> str:
    """All of standard input, if it is a pipe or a file; nothing is read from a terminal.

    As with a paste, control characters are left out; bytes that are no UTF-8 become U+FFFD.
    Raises UsageError where it cannot be read.
    """
    if sys.stdin is None or sys.stdin.isatty():  # None: whoever started us has closed it
        return ""
    _say_what_is_waited_for()
    try:
        data = sys.stdin.buffer.read()
    except OSError as error:
        why = error.strerror or "unknown error"
        raise UsageError(f"Standard input cannot be read: {why}", hint="Pipe some text into it.") from error
    return safe(data.decode("utf-8-sig", "replace").replace("\r\n", "\n"))


def _say_what_is_waited_for() -> None:
    """A pipe that some other program has left open never ends; without a word, that looks like a hang."""
    with suppress(OSError, ValueError):  # Windows asks only sockets; a test's input is no file
        if not select.select([sys.stdin], [], [], PATIENCE_S)[0]:
            note("Waiting for the end of standard input; `</dev/null` behind the command leaves it out.")
