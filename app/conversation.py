"""A chat as a tree in memory: every edit and every new answer is a version beside the old one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from ebbtide.app.token_rate import usual_tokens
from ebbtide.engine.messages import Turn

Role = Literal["user", "assistant"]


@dataclass(eq=False)
class Message:
    """One message. `left_out`: it stays in the chat but is not sent to the model."""

    role: Role
    text: str
    parent: "Message | None" = None
    children: list["Message"] = field(default_factory=list)
    left_out: bool = False
    key: int = 0
    """The store's name for it; 0 = not stored."""
    cut_off: bool = False
    """An answer that ended with its app, not by itself."""
    stopped: bool = False
    """An answer that the person has stopped, or left."""
    viewed: "Message | None" = None
    """The child that was shown last; None = none was."""
    is_growing: bool = False
    """Another window writes this answer at the moment."""

    @cached_property
    def usual_tokens(self) -> int:
        """Of the text, which changes only while another window writes it: an edit is another message."""
        return usual_tokens(self.text)

    def change_text(self, text: str) -> None:
        """The text that another window has written by now."""
        self.text = text
        self.__dict__.pop("usual_tokens", None)

    @property
    def turn(self) -> Turn:
        return Turn(self.role, self.text)


class Version(NamedTuple):
    """The `number`-th of `total` versions, from 1."""

    number: int
    total: int


class Conversation:
    """The tree, and the path through it that is shown: from a root to `leaf`."""

    def __init__(self) -> None:
        self.roots: list[Message] = []
        self._leaf: Message | None = None

    @property
    def leaf(self) -> Message | None:
        """The end of what is shown; each message above it remembers the way down to it."""
        return self._leaf

    @leaf.setter
    def leaf(self, leaf: Message | None) -> None:
        self._leaf = leaf
        for message in ancestry(leaf):
            if message.parent is not None:
                message.parent.viewed = message

    @property
    def path(self) -> list[Message]:
        """The messages that are shown, oldest first."""
        return list(ancestry(self.leaf))[::-1]

    @property
    def sent(self) -> list[Turn]:
        """What the model is to see of it. Neighbours of one role (a question that got no answer) are joined,
        because templates want questions and answers in turn."""
        turns: list[Turn] = []
        for message in self.path:
            if message.left_out or not message.text:  # an answer without a word yet
                continue
            if turns and turns[-1].role == message.role:
                turns[-1] = Turn(message.role, f"{turns[-1].content}\n\n{message.text}")
            else:
                turns.append(message.turn)
        return turns

    def add(self, role: Role, text: str) -> Message:
        """Add a message behind the leaf; it becomes the leaf."""
        message = Message(role, text, self.leaf)
        self.siblings(message).append(message)
        self.leaf = message
        return message

    def siblings(self, message: Message) -> list[Message]:
        """All versions of a message, itself included, oldest first."""
        return message.parent.children if message.parent is not None else self.roots

    def version(self, message: Message) -> Version:
        versions = self.siblings(message)
        return Version(versions.index(message) + 1, len(versions))

    def switch(self, message: Message, step: int) -> Message:
        """Show the version `step` further (it wraps around), with what was shown below it last."""
        versions = self.siblings(message)
        chosen = versions[(versions.index(message) + step) % len(versions)]
        self.leaf = viewed_end(chosen)
        return chosen

    def withdraw(self, message: Message) -> None:
        """Remove a message that has no successors, and show what was there before it."""
        versions = self.siblings(message)
        versions.remove(message)
        self.leaf = viewed_end(versions[-1]) if versions else message.parent

    def leave_out_oldest(self, count: int) -> list[Message]:
        """Leave the oldest `count` messages that are still sent out of what is sent; returns them."""
        oldest = [message for message in self.path if not message.left_out][:count]
        for message in oldest:
            message.left_out = True
        return oldest

    def send_all(self) -> list[Message]:
        """Send every message of the path again; returns those that were left out."""
        restored = [message for message in self.path if message.left_out]
        for message in restored:
            message.left_out = False
        return restored

    def branch(self, end: Message | None) -> "Conversation":
        """A copy of the path up to and including `end`, without other versions."""
        copy = Conversation()
        for message in list(ancestry(end))[::-1]:
            copy.add(message.role, message.text).left_out = message.left_out
        return copy


def ancestry(message: Message | None) -> Iterator[Message]:
    """The message, its parent, and so on."""
    while message is not None:
        yield message
        message = message.parent


def viewed_end(message: Message) -> Message:
    """Follow the version of each successor that was shown last to the end; the newest where none was."""
    while message.children:
        message = message.viewed if message.viewed in message.children else message.children[-1]
    return message
