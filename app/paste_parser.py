"""Textual's parser of what the terminal sends, but for pasted text, which it would read letter by letter: a
second for each megabyte.
"""

import time
from collections.abc import Generator, Iterable

from textual._xterm_parser import BRACKETED_PASTE_END as END
from textual._xterm_parser import BRACKETED_PASTE_START as START
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.events import Key, Paste
from textual.message import Message

MORE_FOLLOWS = 1024
"""Where so much comes at once, it was cut by the reader, so an Escape at its end need not be the key."""

ALT_ENTER = "\x1b\r"
"""What most terminals, and tmux, send for it."""


class PasteParser(XTermParser):
    """Gives the same messages as XTermParser."""

    _pasted: list[str] | None = None
    """What has come of a paste that has not ended."""
    _cut = ""
    """The end of it, which may be half of the mark that ends it."""
    _held, _held_at = "", 0.0
    """The end of the last input, if a paste may begin with it."""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:  # the end of the input
            yield from super().feed(data)
            return
        rest, self._held = self._held + data, ""
        while rest:
            if self._pasted is None:
                typed, found, rest = rest.partition(START)
                if not found:
                    typed = self._hold(typed)
                else:
                    self._pasted = []
                if typed:
                    yield from self._keys(typed)
            else:
                rest = yield from self._paste(rest)

    @property
    def awaits_more(self) -> bool:
        """What has come may be the beginning of a longer key: `tick` says when it is not."""
        return bool(self._held) or self._timeout_time is not None

    def tick(self) -> Iterable[Message]:
        """Called when nothing has come for a while."""
        if self._held and time.monotonic() - self._held_at >= ESCAPE_DELAY:
            typed, self._held = self._held, ""
            yield from super().feed(typed)
        yield from super().tick()

    def _paste(self, text: str) -> Generator[Message, None, str]:
        """Take what belongs to the paste; returns what comes behind it."""
        assert self._pasted is not None
        piece, ended, rest = (self._cut + text).partition(END)
        if not ended:
            at = max(0, len(piece) - len(END) + 1)
            self._pasted.append(piece[:at])
            self._cut = piece[at:]
            return ""
        whole = "".join([*self._pasted, piece])
        self._pasted, self._cut = None, ""
        yield Paste(whole.replace("\x00", ""))
        return rest

    def _keys(self, typed: str) -> Iterable[Message]:
        """Alt+Enter comes as ESC CR, which XTermParser gives as a plain Enter."""
        first, *others = typed.split(ALT_ENTER)
        if first:
            yield from super().feed(first)
        for text in others:
            yield Key("alt+enter", None)
            if text:
                yield from super().feed(text)

    def _hold(self, typed: str) -> str:
        """Keep back what may be the beginning of a paste; returns the rest."""
        least = 1 if len(typed) >= MORE_FOLLOWS else 2
        for length in range(len(START) - 1, least - 1, -1):
            if typed.endswith(START[:length]):
                self._held, self._held_at = typed[-length:], time.monotonic()
                return typed[:-length]
        return typed
