"""When the chat screen is brought up to date: often, but never so often that keys have to wait for it.

A redraw that moves the view takes some 20 to 40 ms on a busy machine, in which no key is shown. So while
somebody types, redraws take a ninth of the time at most, and begin just after a key has been shown: then the
next key is as far away as it can be.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.app.beat import Beat
from ebbtide.app.remote import is_remote
from ebbtide.app.sentences import in_two_lines
from ebbtide.app.widgets.memory_bar import MemoryBar
from ebbtide.app.widgets.more_below import MoreBelow
from ebbtide.app.widgets.status_line import StatusLine, status_of

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

DRAW_S, FAR_DRAW_S = 1 / 15, 1 / 4
"""Answers are redrawn at most so often, however fast tokens come; less often over SSH, where a view that
moves on costs some ten thousand bytes.
"""
IDLE_SHARE, MOST_IDLE_S = 3.0, 1.0
"""So many times as long as a redraw took (a second at most) are left to scrolling after it."""
TYPING_SHARE, MOST_TYPING_S = 8.0, 0.5
"""The same while somebody types."""
TYPING_S = 0.3
"""So long after a key another one is expected; a redraw that is due waits for it."""
HIDDEN_S = 2.0
"""Behind a screen that hides this one, what comes is taken in so often: then coming back takes no time."""
AWAKE_S = 2.0
"""So long after anything has happened it is drawn often: no redraw is put off for longer."""
REST_S = 3.0
"""So often it is drawn while nothing happens, for what nobody has told of."""


def draw_every_s() -> float:
    """Seconds between two looks at what has come."""
    return FAR_DRAW_S if is_remote() else DRAW_S


class Drawing:
    """Works for one ChatScreen, which calls `start` once, and `wake` whenever something happens."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._last_at = float("-inf")
        """When the last redraw was painted, or begun while it is not."""
        self._took_s = 0.0
        self._is_drawing = False
        self._typed_at = float("-inf")
        self._told_trouble = ""
        self._beat = Beat(self.draw, draw_every_s(), awake_s=AWAKE_S, rest_s=REST_S)

    @property
    def rests(self) -> bool:
        """Nothing happens, and it is drawn rarely."""
        return self._beat.rests

    def start(self) -> None:
        self._beat.start(self._screen)

    def wake(self) -> None:
        """Something has come, or somebody does something: draw often, `draw_every_s()` apart, for a while."""
        self._beat.wake()

    async def draw(self) -> None:
        """Bring the screen up to date; widgets redraw only what has changed."""
        self._screen.elsewhere.mind()
        if self._is_hidden:
            await self._draw_hidden()
            return
        self._draw_lines()
        if not self._is_typing:
            await self._draw_answer()
        self._tell_trouble()

    async def shown_again(self) -> None:
        """The screen is in view again."""
        self._took_s = 0.0
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
        more = screen.query_one(MoreBelow)
        more.display, more.is_writing = not screen.transcript.follows, bool(screen.prompt.text)

    async def _draw_answer(self) -> None:
        """Draw the transcript, if it is due."""
        if self._is_due and not self._is_hidden:
            began = self._last_at = time.monotonic()
            self._is_drawing = True
            await self._screen.transcript.draw()
            self._screen.call_after_refresh(self._painted, began)

    @property
    def _is_due(self) -> bool:
        """Enough time has been left to others. A redraw whose paint never came is not waited for."""
        share, most = (TYPING_SHARE, MOST_TYPING_S) if self._is_typing else (IDLE_SHARE, MOST_IDLE_S)
        rest = MOST_IDLE_S if self._is_drawing else min(self._took_s * share, most)
        return time.monotonic() >= self._last_at + rest

    @property
    def _is_typing(self) -> bool:
        return time.monotonic() - self._typed_at <= TYPING_S

    def _painted(self, began: float) -> None:
        """Draw, layout and paint are done; the longer they took, the longer until the next."""
        self._last_at, self._is_drawing = time.monotonic(), False
        self._took_s = self._last_at - began

    @property
    def _is_hidden(self) -> bool:
        """Another screen covers all of it; a modal one leaves it in view."""
        return not self._screen.is_current and not self._screen.app.screen.is_modal

    async def _draw_hidden(self) -> None:
        if time.monotonic() >= self._last_at + HIDDEN_S:
            self._last_at = time.monotonic()
            await self._screen.transcript.draw()

    def _tell_trouble(self) -> None:
        """Say once that chats cannot be saved, and once that they can again."""
        keeper = self._screen.session.keeper
        trouble = keeper.store.trouble or keeper.fault
        text = in_two_lines(trouble) if trouble is not None else ""
        if text != self._told_trouble:
            self._told_trouble = text
            if text:
                self._screen.note(text, "error")
            else:
                self._screen.note("Chats are saved again.", passing=True)
