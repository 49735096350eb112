"""Leaving the chat: at once where all is saved; else a person says twice that they want to."""

import asyncio
import time
from typing import TYPE_CHECKING

from ebbtide.app.rescue import unsaved_count, unsaved_words
from ebbtide.app.sentences import statement

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

RETRY_S = 5.0
"""What waits for the disk is tried again so often, also while nobody does anything."""
ARMED_S = 10.0
"""After the warning, so long the next key that leaves does."""


class Leaving:
    """Works for one ChatScreen, which calls `retry` every RETRY_S."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._warned_at = float("-inf")

    @property
    def is_armed(self) -> bool:
        """The person has been warned a moment ago."""
        return time.monotonic() - self._warned_at < ARMED_S

    def leave(self, again: str) -> None:
        """End the program; where messages would be lost, say so first, and that `again` leaves."""
        session = self._screen.session
        store = session.keeper.store
        if self.is_armed or (store.trouble is None and session.keeper.fault is None):
            self._screen.app.exit()
            return
        store.retry()
        count = unsaved_count(session.keeper, session.conversation)
        if not count:
            self._screen.app.exit()
            return
        self._warned_at = time.monotonic()
        trouble = store.trouble or session.keeper.fault
        why = f" {statement(str(trouble))}" if trouble is not None else ""
        self._screen.hint(
            f"{unsaved_words(count).capitalize()} not saved yet: {again} again leaves.", ARMED_S
        )
        self._screen.note(
            f"{unsaved_words(count).capitalize()} not saved yet.{why}\n"
            f"{again} again leaves; they are then written to a file in the folder you started in, "
            "or wherever there is space, and its name is told.",
            "error",
            passing=True,
        )

    async def retry(self) -> None:
        """Save what waits, where the disk takes it by now."""
        store = self._screen.session.keeper.store
        if store.unsaved:
            await asyncio.to_thread(store.retry)
            self._screen.wake()
