"""Ctrl+Z: back to the shell that the program was started from; `fg` there brings it back."""

import os
import signal
import sys
from contextlib import suppress

from textual.app import App


def has_shell() -> bool:
    """Whether some process would see that this one is stopped, and could continue it.

    That is the parent of the whole job, in the same session; a terminal window that runs nothing but this
    program has none, and it would hang for ever.
    """
    if sys.platform == "win32":
        return False
    import psutil  # after the first paint

    try:
        parent = psutil.Process(os.getpgrp()).ppid()
        return parent > 1 and os.getsid(parent) == os.getsid(0)
    except (psutil.Error, OSError):
        return False


def suspend(app: App[None]) -> None:
    """Give the terminal to the shell. The engine works on meanwhile."""
    if sys.platform != "win32" and os.getpgrp() != os.getpid():
        with suppress(OSError):  # what has started this program: the shell waits for that one
            os.kill(os.getpgrp(), signal.SIGTSTP)
    app.action_suspend_process()
