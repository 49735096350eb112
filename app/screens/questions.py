"""From the prompt to the engine: what is sent, what waits in the queue, what comes back to the prompt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ebbtide.app.conversation import Message
from ebbtide.app.files.mentions import with_files
from ebbtide.app.question_queue import QuestionQueue
from ebbtide.app.screens.elsewhere import WAITS
from ebbtide.app.sentences import in_two_lines
from ebbtide.app.widgets.status_line import NOTE_HINT_S
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

ENTER_SHOWS = "The context is full: Enter shows what can be done. What you write stays."


class Questions:
    """Works for one ChatScreen."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._session = screen.session
        self.queue = QuestionQueue()
        self._written: dict[str, str] = {}
        """Questions that went out with files in them, as they were written."""
        self._given_back = ""
        """What the prompt begins with because it came back from the engine."""
        self._ways_out: tuple[str, int] | None = None
        """What `offer_ways_out` was called with while keys belonged to something else."""

    async def submit(self, text: str) -> None:
        """Ask, or queue while an answer is written. With a file that cannot be sent, the text stays."""
        screen = self._screen
        if self._ways_out is not None and screen.area.editing is None:
            screen.prompt.put(text)
            self.show_ways_out()
            return
        self.forget_ways_out()
        try:
            whole = with_files(text, screen.tools.folder)
        except UsageError as error:
            screen.prompt.put(text)
            screen.note(in_two_lines(error), "error", passing=True)
            return
        if whole != text:
            self._written[whole] = text
        edited = screen.area.end_edit()
        waits = edited is None and screen.elsewhere.answer is not None
        if self._session.busy or waits:
            self.queue.add(whole)
            self._show_queue()
            if waits:
                screen.hint(WAITS, NOTE_HINT_S)
        else:
            await self.ask(whole, edited)

    async def ask(self, text: str, edited: Message | None = None) -> None:
        """Send it now, as another version of `edited` if that is given."""
        if edited is not None:
            self._session.edit(edited, text)
        else:
            self._session.ask(text)
        await self._screen.turns.sync()

    async def stop(self) -> None:
        """Stop the answer; a question that was not sent yet is taken back, one Up away."""
        self.queue.hold()
        self._session.stop()
        if not self._session.busy:
            await self._screen.events.answer_ended("Taken back.", passing=True)
            self.give_back()
        self._show_queue()

    def give_back(self) -> None:
        """A question that got no word of an answer is in the prompt again, as it was written and in front of
        what has been typed by now, ready to be sent once more.
        """
        text = self._session.take_back()
        self._given_back = self._screen.prompt.give_back(self._written.pop(text, text))

    # --- the queue

    async def send_next(self, *, by_person: bool = False) -> None:
        """Send the next queued question, unless they are held."""
        if by_person and self._ways_out is not None:
            self.show_ways_out()
            return
        if by_person:
            self.queue.release()
        waits = not by_person and self._screen.elsewhere.answer is not None
        question = None if self._session.busy or waits else self.queue.next()
        if question is not None:
            await self.ask(question)
        self._show_queue()

    def unqueue(self, index: int = -1) -> None:
        """A queued question comes back to the prompt."""
        question = self.queue.take(index)
        if question is not None:
            self._screen.prompt.put(self._written.pop(question, question))
        self._show_queue()

    def hold_queue(self) -> None:
        """Nothing of it is sent before the person says so."""
        self.queue.hold()
        self._show_queue()

    def load_queue(self) -> None:
        """What waited in this chat when it was left, or when ebbtide was ended, goes on waiting."""
        self.queue = QuestionQueue(self._session.keeper.load_queue())
        self._show_queue()

    def wait_here(self, questions: Sequence[str]) -> None:
        """The chat in which these waited is gone."""
        self.queue = QuestionQueue([*self.queue.questions, *questions])
        self._show_queue()

    def _show_queue(self) -> None:
        self._session.keeper.save_queue(self.queue.questions)
        written = [self._written.get(question, question) for question in self.queue.questions]
        self._screen.area.show_queue(written, held=self.queue.held)

    # --- a full context

    def offer_ways_out(self, question: str = "", question_tokens: int = 0) -> None:
        """The context is full. `question` could not be asked; without one, an answer was cut off.

        `question_tokens`: of the question, if it alone is longer than the context. While the person is
        writing, or does something else, the list waits for the next Enter: it would take their keys.
        """
        screen = self._screen
        is_writing = screen.prompt.text not in ("", self._given_back)
        self._ways_out = question, question_tokens
        if screen.app.screen is screen and screen.prompt.has_focus and not is_writing:
            self.show_ways_out()
        else:
            screen.prompt.enter_awaited = True
            screen.hint(ENTER_SHOWS, NOTE_HINT_S)
            screen.note(ENTER_SHOWS, passing=True)

    async def _new_chat_with_draft(self) -> None:
        """Begin a new chat; what is being written goes there too."""
        prompt = self._screen.prompt
        text, pastes = prompt.whole_text, prompt.pastes.spans(prompt.text)
        prompt.text = ""
        self._session.keeper.save_draft("", [])
        await self._screen.changes.new()
        prompt.restore_draft(text, pastes)

    def forget_ways_out(self) -> None:
        """Something else was done about it, or the chat is another one."""
        self._ways_out, self._screen.prompt.enter_awaited = None, False

    def show_ways_out(self) -> None:
        """Let the person choose one."""
        from ebbtide.app.context_choice import (  # after the first paint
            context_choices,
            full_title,
            larger_context,
            messages_to_leave_out,
        )

        assert self._ways_out is not None
        question, question_tokens = self._ways_out
        self.forget_ways_out()
        screen, changes, session = self._screen, self._screen.changes, self._session
        last = next((turn for turn in reversed(session.turns) if turn.role == "user"), None)
        asked = question or (last.content if last is not None else "")
        ctx = larger_context(session, question_tokens or session.context_used)

        async def go(way: str) -> None:
            if question and way != "edit":
                screen.prompt.take_out(self._given_back)  # it is there in case nothing is chosen
            if way == "trim":
                await changes.leave_out(messages_to_leave_out(session, question))
            elif way == "fork":
                await self._new_chat_with_draft()
            elif way == "ctx":
                await changes.reload(msgspec.structs.replace(session.load, ctx=ctx))
            if way == "edit":
                if not question:
                    changes.edit_last()
            elif question or way == "fork":
                await self.ask(asked)
            else:
                await changes.regenerate(session.conversation.path[-1])

        choices = context_choices(session, question, question_tokens)
        screen.pick(full_title(session, question_tokens), choices, go)
