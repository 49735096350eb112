"""What the store hands out: immutable values; a later change in the store does not show in them."""

from typing import Literal

import msgspec

from ebbtide.engine.messages import Timings, Usage

Role = Literal["system", "user", "assistant"]
State = Literal["partial", "complete", "stopped", "failed"]
"""`partial`: being written, or the app that wrote it was killed. `stopped`: ended by the person."""


class Chat(msgspec.Struct, frozen=True):
    """One chat without its messages. Times are milliseconds since 1970, UTC."""

    id: str
    """Six letters and digits, easy to type; never changes."""
    title: str
    """One line without control characters; empty until the first question or `rename`."""
    created_ms: int
    updated_ms: int
    """When a message or the title last changed; chats are listed by it, newest first."""
    model: str
    preset: str
    """Name of the preset that the chat was begun with; empty for none."""
    system: str
    """System prompt of this chat; empty for none."""
    head_id: int | None
    """The leaf of the branch that is shown; None = nothing is shown yet."""
    message_count: int
    """All messages of the tree, also those on other branches."""
    is_named: bool = False
    """A person gave the title; otherwise the first question did."""


class Message(msgspec.Struct, frozen=True):
    """One message: a node in its chat's tree. `parent_id` None: the first of a branch."""

    id: int
    """Larger than its parent's, and larger than that of every message made earlier."""
    chat_id: str
    parent_id: int | None
    role: Role
    content: str
    thinking: str
    state: State
    finish_reason: str
    """As in `Finished`; empty while it is partial, and for messages that the engine did not write."""
    model: str
    usage: Usage | None
    timings: Timings | None
    left_out: bool
    """It stays in the chat but is not sent to the model."""
    created_ms: int
    updated_ms: int


class Snippet(msgspec.Struct, frozen=True):
    """A piece of text on one line, and which parts of it matched: (start, end) in characters."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


class Hit(msgspec.Struct, frozen=True):
    """One result of a search: a chat by its title (`message_id` None) or one message in it."""

    chat_id: str
    title: str
    message_id: int | None
    role: str
    created_ms: int
    snippet: Snippet


class Stats(msgspec.Struct, frozen=True):
    """How much is kept. `disk_bytes`: the file and its write-ahead log, 0 for a store in memory."""

    chats: int
    messages: int
    disk_bytes: int
