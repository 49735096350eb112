"""Where the full screen is drawn: on standard error, or on standard output where errors go to a file."""

import sys
from io import TextIOWrapper
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """None: whoever started us has closed it."""
    return stream is not None and not stream.closed and stream.isatty()


def screen_stream() -> TextIOWrapper | None:
    """The one that is a terminal; where both are none, standard error. None if that is closed."""
    is_output = is_terminal(sys.__stdout__) and not is_terminal(sys.__stderr__)
    return sys.__stdout__ if is_output else sys.__stderr__
