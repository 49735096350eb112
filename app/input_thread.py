"""Reads what is typed, asleep until there is something: to look ten times a second is not to be idle."""

import os
import select
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable

from textual.message import Message

from ebbtide.app.paste_parser import PasteParser

READ_BYTES = 4096
TICK_S = 0.1
"""While a part of a key has come, the parser is asked so often whether that is a key of its own."""


class Alarm(threading.Event):
    """An event for which a thread can wait beside a file: `fileno` can be read while it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._reader, self._writer = os.pipe()

    def __del__(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        return self._reader

    def set(self) -> None:
        if not self.is_set():
            super().set()
            os.write(self._writer, b"!")

    def clear(self) -> None:
        if self.is_set():
            super().clear()
            os.read(self._reader, 1)


def read_input(terminal: int, parser: PasteParser, over: Alarm, take: Callable[[Message], None]) -> None:
    """Give what comes from a terminal, a file descriptor, to `take`, until `over`, or until the terminal has
    hung up. Raises OSError where it cannot be read.
    """
    decode = getincrementaldecoder("utf-8")("replace").decode
    while not over.is_set():
        sources = [terminal, over.fileno()]
        ready, _, _ = select.select(sources, [], [], TICK_S if parser.awaits_more else None)
        if terminal in ready:
            read = os.read(terminal, READ_BYTES)
            if not read:
                return
            text = decode(read)
            # A letter of which only a part has come is no text yet; to the parser that would be the end.
            for message in parser.feed(text) if text else ():
                take(message)
        for message in parser.tick():
            take(message)
