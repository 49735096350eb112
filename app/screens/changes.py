"""What people do to the chat as a whole and to its turns; afterwards the screen shows the chat as it is."""

import time
from typing import TYPE_CHECKING

from ebbtide.app.conversation import Message
from ebbtide.app.panel.ended import ended_by_load
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Decision, Load

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen
    from ebbtide.app.widgets.turns import Note


class BusyError(UsageError):
    """It cannot be done while an answer is written: true for a moment only."""


BUSY_HINT = "Esc stops the answer."


class Changes:
    """Works for one ChatScreen. Raises UsageError for what cannot be done now."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._session = screen.session
        self._reloading: Note | None = None

    def must_be_idle(self) -> None:
        """Raises BusyError while an answer is written."""
        if self._session.busy:
            raise BusyError("An answer is being written", hint=BUSY_HINT)

    # --- another chat, another model

    async def new(self) -> None:
        """Begin a new chat."""
        self._screen.area.save_draft()
        self._session.clear()
        await self._show_other_chat()

    async def open(self, chat_id: str) -> None:
        """Go on with a chat of the store."""
        self._screen.area.save_draft()
        self._session.open(chat_id)
        await self._show_other_chat()

    async def open_hit(self, value: str) -> None:
        """Open a chat at a message that was found: "CHAT MESSAGE"."""
        chat_id, _, message_id = value.partition(" ")
        store = self._session.keeper.store
        if message_id:
            store.set_active(chat_id, store.leaf_below(int(message_id)))
        await self.open(chat_id)
        transcript = self._screen.transcript
        for turn in transcript.turns:
            if turn.message is not None and str(turn.message.key) == message_id:
                await transcript.reveal(turn)

    async def resume(self) -> None:
        """Go on with the chat that was on the screen last, if this one is empty; else choose one."""
        from ebbtide.app.slash.chat_commands import chats  # after the first paint

        keeper = self._session.keeper
        last = keeper.store.last_open_chat()
        if last is None or self._session.turns or keeper.chat is not None:
            await chats(self._screen, "")
        else:
            await self._screen.guarded(self.open(last.id))

    async def fork(self, message: Message) -> None:
        """Go on in a new chat that shares the path down to `message`."""
        self.must_be_idle()
        self._screen.area.save_draft()
        self._session.fork(message)
        await self._show_other_chat()
        self._screen.note("This is a new chat; the old one stays as it was (/chats).", passing=True)

    async def reload(self, load: Load, what: str = "") -> None:
        """Load another model, or the same with `what`, which is told until it is there; the chat stays.

        What a person did to experts by hand goes with the engine, and that is told.
        """
        self.may_reload()
        if load.path == self._session.load.path:
            self._tell_ended(ended_by_load(self._screen.panel.feed.residency, load.quality))
        if what:
            self._reloading = self._screen.note(f"Loading again with {what}.", passing=True)
        self._session.reload(load)

    def may_reload(self) -> None:
        """Raises BusyError while words of an answer come."""
        if self._session.answer.phase is not None:
            self.must_be_idle()

    def _tell_ended(self, said: str) -> None:
        """In the chat, for good, and in the event log."""
        if said:
            self._screen.note(said)
            self._screen.panel.take(Decision(time.time(), "bound", said))

    async def reloaded(self) -> None:
        """The model is there: what told of its loading goes."""
        if self._reloading is not None:
            await self._screen.transcript.drop(self._reloading)
            self._reloading = None

    async def _show_other_chat(self) -> None:
        """Another chat is on the screen; each has its own draft."""
        screen = self._screen
        screen.forget_hint()
        screen.questions.forget_ways_out()
        screen.questions.load_queue()
        screen.area.end_edit()
        # Before anything is waited for: what is typed in the meantime belongs to the new chat.
        screen.prompt.text = ""
        screen.prompt.restore_draft(*self._session.keeper.load_draft())
        await screen.turns.clear()
        await screen.turns.sync()

    # --- versions of turns

    def edit(self, message: Message) -> None:
        """The question is in the prompt; sending it makes a new version."""
        self.must_be_idle()
        self._screen.area.begin_edit(message)

    def edit_last(self) -> None:
        """The same with the last question, if there is one."""
        path = self._session.conversation.path
        question = next((message for message in reversed(path) if message.role == "user"), None)
        if question is not None:
            self.edit(question)

    async def regenerate(self, message: Message | None) -> None:
        """Have a question answered again; None: there is none."""
        self.must_be_idle()
        if message is None:
            raise UsageError("There is no question yet", hint="Ask something first.")
        self._session.regenerate(message)
        await self._screen.turns.sync()

    async def switch(self, message: Message, step: int) -> None:
        """Show another version of a turn."""
        self.must_be_idle()
        self._session.chat.switch(message, step)
        await self._screen.turns.sync()

    # --- what is sent

    async def leave_out(self, count: int) -> None:
        """Keep the oldest messages from the model; they stay on the screen."""
        left_out = self._session.chat.leave_out_oldest(count)
        await self._screen.turns.sync()
        what = "The oldest message is" if left_out == 1 else f"The oldest {left_out:,} messages are"
        self._screen.note(f"{what} not sent to the model any more; /untrim undoes it.", passing=True)

    async def toggle_left_out(self, message: Message) -> None:
        """Send a single message or not."""
        self._session.chat.set_left_out(message, not message.left_out)
        await self._screen.turns.sync()

    async def send_all(self) -> None:
        count = self._session.chat.send_all()
        await self._screen.turns.sync()
        were = "1 was" if count == 1 else f"{count:,} were"
        self._screen.note(f"All messages are sent again ({were} left out).", passing=True)
