"""Signals as exceptions: SIGTERM and SIGHUP unwind the program in order, as Ctrl+C does."""

import signal
import types


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; not an Exception, so that nothing swallows it by accident."""


STOPPING = (KeyboardInterrupt, Terminated)
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


def _raise(number: int, frame: types.FrameType | None) -> None:
    raise Terminated


def raise_on_termination() -> None:
    """Install the handlers; only the main thread may."""
    signal.signal(signal.SIGTERM, _raise)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup does
        signal.signal(signal.SIGHUP, _raise)
