"""What an event of the engine does to the chat screen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from ebbtide.app.advice import in_chat
from ebbtide.app.chat_text import describe_end, describe_error
from ebbtide.app.conversation import Message as ChatMessage
from ebbtide.app.garbage import collect_if_due, collect_now
from ebbtide.app.phase import Phase
from ebbtide.app.safe_text import safe_line
from ebbtide.app.widgets.turns import STOPPED, Note
from ebbtide.engine.client import ClientEvent, Died
from ebbtide.engine.errors import ContextError
from ebbtide.engine.messages import Counted, Decision, Failed, Finished, Loaded

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

COLLECT_AFTER_S = 3.0
AGAIN = "Press Enter to try again:"
AGAIN_WITH_ANSWER = "/regenerate tries again, or ask something else:"
AGAIN_WITHOUT_QUESTION = "Ask something:"
ANEW = "the model is loaded anew. `ebbtide paths` names the engine's log."
"""What follows when the engine has died."""


@dataclass
class EngineEvent(Message):
    """An event of a client, brought to the screen's own thread."""

    event: ClientEvent
    life: int = 0
    """Of the engine, when it said so (`EngineClient.life`)."""
    from_fetcher: bool = False


class EngineEvents:
    """Works for one ChatScreen, which gives it each event in turn."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._session = screen.session

    async def take_fetcher(self, event: ClientEvent) -> None:
        """Take an event of the background job that makes the model file."""
        self._screen.wake()
        self._session.handle_fetcher(event)
        if self._session.phase is Phase.FAILED:
            await self.answer_ended(in_chat(describe_error(self._session)), "error", passing=True)
            self._screen.questions.give_back()

    async def take(self, event: ClientEvent) -> None:
        """Take an event of the engine."""
        screen = self._screen
        screen.panel.take(event)
        if isinstance(event, Decision) and event.kind == "advice":
            screen.note(f"{event.sentence}.", passing=True)
        leaf, was_there = self._session.conversation.leaf, self._session.model.is_going_back
        if not self._session.handle(event):
            return
        screen.wake()
        match event:
            case Finished():
                await self._finished(event)
            case Failed() | Died():
                await self._failed(leaf)
            case Loaded():
                screen.area.recount()
                await screen.turns.sync()
                await screen.changes.reloaded()
                # They are about this load: the next thing makes them old. Of a model that is there again they
                # are known, and would push away why its successor is not.
                if event.notices and not was_there:
                    screen.note("\n".join(event.notices), passing=True)
            case Counted():
                screen.area.recount()
            case _:
                pass

    async def _finished(self, event: Finished) -> None:
        questions = self._screen.questions
        leaf, said = self._session.conversation.leaf, in_chat(describe_end(event))
        is_marked = leaf is not None and leaf.stopped and said == STOPPED  # below the answer, for good
        await self.answer_ended("" if is_marked else said)
        if is_marked:
            self._screen.hint_if_away(said)
        questions.give_back()
        if event.finish_reason == "context":
            questions.hold_queue()  # there is no room for any of it
            questions.offer_ways_out()
        await questions.send_next()

    async def _failed(self, before: ChatMessage | None) -> None:
        """`before`: the end of the chat until then. A failure that ends an answer is told behind it for good;
        any other one is of no interest once something follows. What a list of ways out says is not said
        twice.
        """
        questions, session = self._screen.questions, self._session
        questions.hold_queue()
        unanswered = before is not None and session.exchange.was_taken_back
        error = session.error
        if isinstance(error, ContextError) and session.phase is not Phase.FAILED:
            await self.answer_ended("")
            questions.give_back()
            questions.offer_ways_out(before.text if before is not None else "", error.question_tokens)
            return
        ended_answer = session.conversation.leaf is not before and not unanswered
        why = self._why_failed(unanswered=unanswered)
        await self.answer_ended(why, "error", passing=not ended_answer)
        questions.give_back()

    def _why_failed(self, *, unanswered: bool) -> str:
        """What happened and what can be done. `unanswered`: the question is in the prompt again."""
        if self._session.phase is not Phase.DIED:
            return in_chat(describe_error(self._session))
        way = AGAIN if unanswered else AGAIN_WITH_ANSWER if self._session.turns else AGAIN_WITHOUT_QUESTION
        return f"{safe_line(str(self._session.error))}\n{way} {ANEW}"

    async def answer_ended(self, note: str, kind: str = "info", *, passing: bool = False) -> None:
        """Show how the chat stands now, and say how the answer ended."""
        screen = self._screen
        self._session.answer.content.end()
        screen.not_busy()
        await screen.turns.sync()
        await screen.transcript.draw()
        screen.area.recount()  # the chat is longer now: what is being written may not fit any more
        collect_if_due()
        screen.set_timer(COLLECT_AFTER_S, self._collect)
        if note:
            screen.hint_if_away(note)
            await screen.transcript.add(Note(note, kind, passing=passing))

    def _collect(self) -> None:
        """Nobody waits for the screen now."""
        if not self._session.busy and not self._screen.prompt.text:
            collect_now()
