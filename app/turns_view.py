"""Brings the transcript in line with the chat: as few turns as possible are made anew."""

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.conversation import Message
from ebbtide.app.thinking import split_thinking
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.app.widgets.turns import AnswerTurn, Entry, UserTurn


class TurnsView:
    """Knows which turn on the screen stands for which message, and which answer still streams."""

    def __init__(self, session: ChatSession, transcript: Transcript) -> None:
        self._session = session
        self.transcript = transcript
        self._live: AnswerContent | None = None

    async def sync(self) -> None:
        """After a change of the chat: cut what is no longer on the path, add what is new."""
        path = self._session.conversation.path
        shown = [turn for turn in self.transcript.turns if turn.message is not None or _is_live(turn)]
        same = 0
        while same < min(len(path), len(shown)) and self._stands_for(shown[same], path[same]):
            same += 1
        if same < len(shown) and not (same == len(path) and self._is_current(shown[same])):
            await self.transcript.cut(shown[same])
        fresh = [self._turn_for(message) for message in path[same:]]
        if len(fresh) > 2 and not self.transcript.turns:
            await self.transcript.show(fresh)
        else:
            for turn in fresh:
                await self.transcript.add(turn)
        if self._session.busy and self._live is not self._session.answer.content:
            self._live = self._session.answer.content
            await self.transcript.add(AnswerTurn(self._live))
        self._number_versions()

    async def clear(self) -> None:
        self._live = None
        await self.transcript.clear()

    def _stands_for(self, turn: Entry, message: Message) -> bool:
        """The answer that streamed becomes the message that it ended as."""
        if turn.message is message:
            return True
        if message.role == "assistant" and self._is_current(turn) and not self._session.busy:
            turn.message = message
            return True
        return False

    def _is_current(self, turn: Entry) -> bool:
        return (
            isinstance(turn, AnswerTurn)
            and turn.message is None
            and turn.content is self._session.answer.content
        )

    def _turn_for(self, message: Message) -> Entry:
        if message.role == "user":
            return UserTurn(message.text, message)
        content = AnswerContent()
        content.become(AnswerContent.of(message.text), goes_on=message.is_growing)
        return AnswerTurn(content, message)

    async def grown(self, message: Message) -> None:
        """Another window has written more of an answer, or has ended it."""
        for turn in self.transcript.turns:
            if isinstance(turn, AnswerTurn) and turn.message is message:
                turn.content.become(AnswerContent.of(message.text), goes_on=message.is_growing)
                turn.set_version(turn.version)
        await self.transcript.draw()

    def _number_versions(self) -> None:
        for turn in self.transcript.turns:
            if turn.message is not None:
                turn.set_version(self._session.conversation.version(turn.message))


def _is_live(turn: Entry) -> bool:
    return isinstance(turn, AnswerTurn)


def text_of_turn(turn: Entry) -> str:
    """What a copy of the turn is: without the thinking."""
    if turn.message is None:
        return ""
    return (
        split_thinking(turn.message.text).answer.strip()
        if turn.message.role == "assistant"
        else turn.message.text
    )
