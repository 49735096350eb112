"""Keeps one chat in the store while it happens, and brings it back: question, growing answer, its end."""

import functools
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Concatenate, ParamSpec

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.conversation import Conversation, Message
from ebbtide.app.store import NEW_CHAT, Chat, ChatStore, State, StoreError, this_process
from ebbtide.app.store import Message as Record
from ebbtide.app.thinking import CLOSE, OPEN
from ebbtide.engine.messages import Finished

P = ParamSpec("P")
SAVE_S = 0.25
"""A growing answer is saved so often: what a kill can take."""


Method = Callable[Concatenate["ChatKeeper", P], None]


def never_raises(method: Method[P]) -> Method[P]:
    """A chat goes on even where it cannot be kept; `ChatKeeper.fault` says why."""

    @functools.wraps(method)
    def kept(keeper: "ChatKeeper", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(keeper, *args, **kwargs)
        except StoreError as error:
            keeper.fault = error

    return kept


class ChatKeeper:
    """The chat on the screen is `chat`; None = it has not begun, and gets a place with its first question."""

    def __init__(
        self, store: ChatStore, now: Callable[[], float] = time.monotonic, window: str | None = None
    ) -> None:
        self.store = store
        self.window = window if window is not None else this_process()
        """The process that writes answers and drafts here."""
        self.chat: Chat | None = None
        self.fault: StoreError | None = None
        """The last change that was not kept at all."""
        self.model = ""
        self.system = ""
        self.preset = ""
        self._now = now
        self._answer: Record | None = None
        self._saved_at = float("-inf")
        self._saved = (0, 0, 0)
        """Epoch, and how much of the thinking and of the answer is in the store."""
        self._queued: tuple[str, tuple[str, ...]] = (NEW_CHAT, ())
        """The chat, and the questions that the store knows to wait in it."""

    @property
    def draft_key(self) -> str:
        return self.chat.id if self.chat is not None else NEW_CHAT

    def begin(self) -> Conversation:
        """Leave the chat for a new one."""
        self.chat = None
        self._queued = (NEW_CHAT, ())
        self.system = self.preset = ""
        self.store.set_open_chat(NEW_CHAT)
        return Conversation()

    def load(self, chat_id: str) -> Conversation:
        """The chat with that id, all versions included. Raises StoreError."""
        self.chat = self.store.get_chat(chat_id)
        self.system, self.preset = self.chat.system, self.chat.preset
        self.store.set_open_chat(chat_id)
        growing = self.store.being_written(chat_id)  # before the tree: what ends meanwhile is noticed later
        viewed = self.store.viewed(chat_id)
        return conversation_of(self.store.whole_tree(chat_id), self.chat.head_id, growing, viewed)

    def look_at(self, message: Message) -> None:
        """Bring an answer that another window writes up to date. Raises UnknownMessage where it was taken
        back there.
        """
        goes_on = self.chat is not None and message.key in self.store.being_written(self.chat.id)
        _fill(message, self.store.get_message(message.key), goes_on=goes_on)

    # --- as it happens

    @never_raises
    def asked(self, message: Message) -> None:
        """A question was added to the tree."""
        message.key = self._add(message).id

    @never_raises
    def answer_begins(self, question: Message) -> None:
        chat = self._begun()
        self._answer = self.store.add_message(
            chat.id, question.key, "assistant", state="partial", model=self.model, writer=self.window
        )
        self._saved, self._saved_at = (0, 0, 0), self._now()

    @never_raises
    def answer_grew(self, content: AnswerContent, *, last: bool = False) -> None:
        """Save what is new, now and then; `last`: at once, for the process ends."""
        if self._answer is None or (self._now() - self._saved_at < SAVE_S and not last):
            return
        self._saved_at = self._now()
        epoch, thinking, answer = self._saved
        if epoch == content.epoch:
            self.store.append_partial(self._answer.id, content.answer[answer:], content.thinking[thinking:])
        else:  # what was saved as answer was thinking
            self.store.finish_message(
                self._answer.id, state="partial", content=content.answer, thinking=content.thinking
            )
        self._saved = (content.epoch, len(content.thinking), len(content.answer))

    @never_raises
    def answer_ended(
        self, message: Message, content: AnswerContent, state: State, finished: Finished | None
    ) -> None:
        """The answer is `message` now."""
        if self._answer is None:
            return
        answer, self._answer = self._answer, None
        message.key = answer.id
        self.store.finish_message(
            answer.id,
            state=state,
            content=content.answer,
            thinking=content.thinking,
            finish_reason=finished.finish_reason if finished is not None else "",
            usage=finished.usage if finished is not None else None,
            timings=finished.timings if finished is not None else None,
        )

    @never_raises
    def answer_dropped(self) -> None:
        """Not a word came."""
        answer, self._answer = self._answer, None
        if answer is not None:
            self.store.withdraw_message(answer.id)

    @never_raises
    def withdrew(self, message: Message) -> None:
        if message.key:
            self.store.withdraw_message(message.key)
        if self.chat is not None and message.parent is None:
            self._drop_if_empty(self.chat.id)

    def _drop_if_empty(self, chat_id: str) -> None:
        """A chat that its only question has left is none, unless a person gave it a name."""
        if not self.store.whole_tree(chat_id) and not self.store.get_chat(chat_id).is_named:
            self._move_queue(NEW_CHAT)
            self.store.delete_chat(chat_id)
            self.chat = None
            self.store.set_open_chat(NEW_CHAT)

    @never_raises
    def shows(self, leaf: Message | None) -> None:
        """Another branch is on the screen."""
        if self.chat is not None:
            self.store.set_active(self.chat.id, leaf.key if leaf is not None else None)

    @never_raises
    def left_out(self, messages: Iterable[Message], left_out: bool) -> None:
        self.store.set_left_out([message.key for message in messages if message.key], left_out)

    def fork(self, message: Message) -> str:
        """A new chat with a copy of the path down to `message`; returns its id."""
        return self.store.fork(message.key).id

    @never_raises
    def save_draft(self, text: str, pastes: Sequence[tuple[int, int]] = ()) -> None:
        self.store.save_draft(self.draft_key, text, pastes, self.window)

    def load_draft(self) -> tuple[str, list[tuple[int, int]]]:
        """The text, and which parts of it are pastes. What another window that lives writes stays there."""
        return self.store.take_draft(self.draft_key, self.window)

    @never_raises
    def save_queue(self, questions: Sequence[str]) -> None:
        """The questions that wait for the answer to end.

        Nothing is written where nothing has changed: another app may have a queue of its own in this chat.
        """
        now = (self.draft_key, tuple(questions))
        if now != self._queued:
            self.store.save_queue(*now)
            self._queued = now

    def load_queue(self) -> list[str]:
        questions = self.store.load_queue(self.draft_key)
        self._queued = (self.draft_key, tuple(questions))
        return questions

    def _move_queue(self, to: str) -> None:
        """The questions that wait go on waiting, in the chat that begins or in the one that is not yet."""
        before, questions = self._queued
        if questions:
            self.store.save_queue(to, questions)
            self.store.save_queue(before, [])
        self._queued = (to, questions)

    def rename(self, title: str) -> None:
        """Give the chat a title; one that has not begun begins with it."""
        chat = self._begun()
        self.store.rename_chat(chat.id, title)
        self.chat = self.store.get_chat(chat.id)

    @never_raises
    def settings_changed(self) -> None:
        """The model, the preset or the system prompt is another one now."""
        if self.chat is not None:
            self.store.set_chat_settings(
                self.chat.id, model=self.model, preset=self.preset, system=self.system
            )

    def _begun(self) -> Chat:
        if self.chat is None:
            self.chat = self.store.create_chat(model=self.model, preset=self.preset, system=self.system)
            self.store.set_open_chat(self.chat.id)
            self.store.save_draft(NEW_CHAT, "", window=self.window)  # it was this chat's
            self._move_queue(self.chat.id)
        return self.chat

    def _add(self, message: Message) -> Record:
        parent = message.parent.key if message.parent is not None else None
        chat = self._begun()
        record = self.store.add_message(chat.id, parent, message.role, message.text)
        if not chat.title:
            self.chat = self.store.get_chat(chat.id)
        return record


def conversation_of(
    records: Iterable[Record],
    head_id: int | None,
    growing: Container[int] = (),
    viewed: Mapping[int, int] = MappingProxyType({}),
) -> Conversation:
    """The tree in memory, from messages of which parents come before children; those in `growing` are being
    written. `viewed`: which child of a message was shown last.
    """
    conversation, known = Conversation(), dict[int, Message]()
    for record in records:
        if record.role == "system":
            continue
        parent = known.get(record.parent_id) if record.parent_id is not None else None
        message = Message(record.role, "", parent, left_out=record.left_out, key=record.id)
        _fill(message, record, goes_on=record.id in growing)
        if message.cut_off and not message.text:
            known[record.id] = parent if parent is not None else message
            continue
        conversation.siblings(message).append(message)
        known[record.id] = message
    for parent_id, child_id in viewed.items():
        if parent_id in known:
            known[parent_id].viewed = known.get(child_id)
    conversation.leaf = known.get(head_id) if head_id is not None else None
    return conversation


def _fill(message: Message, record: Record, *, goes_on: bool) -> None:
    message.change_text(text_of(record))
    message.is_growing = goes_on and record.state == "partial"
    message.cut_off = record.state == "partial" and not goes_on
    message.stopped = record.state == "stopped"


def text_of(record: Record) -> str:
    """A message as the model wrote it."""
    if not record.thinking:
        return record.content
    return f"{OPEN}\n{record.thinking.strip()}\n{CLOSE}\n\n{record.content}"
