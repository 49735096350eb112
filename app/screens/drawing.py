"""When the chat screen is brought up to date: often, but never so often that keys have to wait for it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.app.widgets.memory_bar import MemoryBar
from ebbtide.app.widgets.status_line import StatusLine, status_of

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

DRAW_S = 1 / 15
"""Answers are redrawn at most so often, however fast tokens come."""
IDLE_SHARE, MOST_IDLE_S = 3.0, 1.0
"""After a redraw that took long, so many times as long (a second at most) are left to keys and scrolling."""


class Drawing:
    """Works for one ChatScreen."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._next_at = 0.0
        self._told_trouble = ""

    async def draw(self) -> None:
        """Bring the screen up to date; widgets redraw only what has changed."""
        screen, session = self._screen, self._screen.session
        screen.query_one(StatusLine).status = status_of(session, Path(session.load.path).stem)
        screen.query_one(MemoryBar).memory = session.memory
        began = time.monotonic()
        if began >= self._next_at:
            self._next_at = began + MOST_IDLE_S  # until it is known how long this takes
            await screen.transcript.draw()
            screen.call_after_refresh(self._painted, began)
        self._tell_trouble()

    def _painted(self, began: float) -> None:
        """Draw, layout and paint are done; the longer they took, the longer until the next."""
        now = time.monotonic()
        self._next_at = now + min((now - began) * IDLE_SHARE, MOST_IDLE_S)

    def _tell_trouble(self) -> None:
        """Say once that chats cannot be saved, and once that they can again."""
        keeper = self._screen.session.keeper
        trouble = keeper.store.trouble or keeper.fault
        text = f"{trouble}\n{trouble.hint}" if trouble is not None else ""
        if text != self._told_trouble:
            self._told_trouble = text
            if text:
                self._screen.note(text, "error")
            else:
                self._screen.note("Chats are saved again.", passing=True)
