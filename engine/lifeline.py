"""Ties a child process's life to its parent's: a process that lost the app must not linger.

Two independent means: the operating system's own signal (Linux), and the end of standard input (everywhere).
"""

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_PID_VARIABLE = "EBBTIDE_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux: be killed when the parent's spawning thread ends. Elsewhere: do nothing.

    Ends the process at once when the parent named in EBBTIDE_PARENT_PID is already gone.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    expected = os.environ.get(PARENT_PID_VARIABLE)
    if expected is not None and int(expected) != os.getppid():
        os._exit(1)


def exit_after(grace_s: float) -> None:
    """End the process in `grace_s` seconds whatever it does then: for when standard input has ended."""

    def wait_and_exit() -> None:
        time.sleep(grace_s)
        os._exit(1)

    threading.Thread(target=wait_and_exit, name="lifeline", daemon=True).start()
