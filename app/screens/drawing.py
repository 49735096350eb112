"""When the chat screen is brought up to date: often, but never so often that keys have to wait for it.

A redraw of a long answer takes some 50 to 100 ms, in which no key is shown. So while somebody types, it
begins just after a key has been shown: then the next key is as far away as it can be.
"""

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
TYPING_S = 0.3
"""So long after a key another one is expected; a redraw that is due waits for it."""
HIDDEN_S = 2.0
"""Behind a screen that hides this one, what comes is taken in so often: then coming back takes no time."""


class Drawing:
    """Works for one ChatScreen, which calls `draw` every DRAW_S."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._next_at = 0.0
        self._typed_at = float("-inf")
        self._told_trouble = ""

    async def draw(self) -> None:
        """Bring the screen up to date; widgets redraw only what has changed."""
        if self._is_hidden:
            await self._draw_hidden()
            return
        self._draw_lines()
        if time.monotonic() - self._typed_at > TYPING_S:
            await self._draw_answer()
        self._tell_trouble()

    async def shown_again(self) -> None:
        """The screen is in view again."""
        self._next_at = 0.0
        self._draw_lines()
        await self._draw_answer()

    def typed(self) -> None:
        """A key has changed the prompt; it is shown first."""
        self._typed_at = time.monotonic()
        self._screen.call_after_refresh(self._draw_answer)

    def _draw_lines(self) -> None:
        screen, session = self._screen, self._screen.session
        screen.query_one(StatusLine).status = status_of(session, Path(session.load.path).stem)
        screen.query_one(MemoryBar).memory = session.memory

    async def _draw_answer(self) -> None:
        """Draw the transcript, if it is due."""
        began = time.monotonic()
        if began >= self._next_at and not self._is_hidden:
            self._next_at = began + MOST_IDLE_S  # until it is known how long this takes
            await self._screen.transcript.draw()
            self._screen.call_after_refresh(self._painted, began)

    def _painted(self, began: float) -> None:
        """Draw, layout and paint are done; the longer they took, the longer until the next."""
        now = time.monotonic()
        self._next_at = now + min((now - began) * IDLE_SHARE, MOST_IDLE_S)

    @property
    def _is_hidden(self) -> bool:
        """Another screen covers all of it; a modal one leaves it in view."""
        return not self._screen.is_current and not self._screen.app.screen.is_modal

    async def _draw_hidden(self) -> None:
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + HIDDEN_S
            await self._screen.transcript.draw()

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
