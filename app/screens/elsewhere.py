"""An answer of this chat that another window writes: followed from the store until it has ended."""

from typing import TYPE_CHECKING

from textual.timer import Timer

from ebbtide.app.conversation import Message
from ebbtide.app.store import UnknownChat, UnknownMessage

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

LOOK_S = 0.5
"""The store is looked at so often while such an answer is on the screen."""
WAITS = "Your question waits for the answer in the other window; Enter sends it now."


class Elsewhere:
    """Works for one ChatScreen, which calls `start` once, and `mind` when the chat may be another one."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._screen.set_interval(LOOK_S, self.look, pause=True)

    def mind(self) -> None:
        """Look from now on, if there is such an answer."""
        if self._timer is not None and self.answer is not None:
            self._timer.resume()

    @property
    def answer(self) -> Message | None:
        """The answer on the screen that another window writes, if there is one."""
        path = self._screen.session.conversation.path
        return next((message for message in reversed(path) if message.is_growing), None)

    async def look(self) -> None:
        """Show what has come; what waits for the end of the answer is sent then."""
        answer = self.answer
        if answer is not None:
            await self._screen.guarded(self._follow(answer))
        elif self._timer is not None:
            self._timer.pause()

    async def _follow(self, answer: Message) -> None:
        screen, before = self._screen, answer.text
        try:
            screen.session.keeper.look_at(answer)
        except UnknownMessage:
            await self._taken_back()
            return
        if answer.is_growing and answer.text == before:
            return
        screen.wake()
        await screen.turns.grown(answer)
        if answer.cut_off:
            screen.questions.hold_queue()
        if not answer.is_growing:
            await screen.questions.send_next()

    async def _taken_back(self) -> None:
        """The other window has withdrawn it, maybe with its question, maybe with the chat."""
        screen = self._screen
        chat = screen.session.keeper.chat
        screen.questions.hold_queue()
        if chat is None or screen.session.busy:
            return
        waiting, draft = list(screen.questions.queue.questions), screen.prompt.text
        try:
            await screen.changes.open(chat.id)
        except UnknownChat:
            await screen.changes.new()
            screen.questions.wait_here(waiting)
            screen.prompt.restore_draft(draft)
