"""A chat as JSON that can be read back: all branches, with every figure.

{
  "format": "ebbtide-chat", "version": 1,
  "title", "model", "preset", "system": text,
  "created_ms", "updated_ms": milliseconds since 1970, UTC,
  "head": number of the message at the end of the branch that is shown, or null,
  "messages": parents before children, siblings oldest first: [{
      "number": 1, 2, ..., "parent": number of an earlier message, or null for the first of a branch,
      "role": "system" | "user" | "assistant", "content", "thinking", "model", "finish_reason": text,
      "state": "partial" | "complete" | "stopped" | "failed", "left_out": true | false,
      "usage": {"prompt", "cached", "completion"} | null,
      "timings": {"load_s", "first_token_s", "prefill_tok_s", "decode_tok_s", "max_gap_s"} | null,
      "created_ms", "updated_ms"
  }],
  "queued": questions that wait to be sent, the next one first: [text]
}

The text is ASCII: other characters are escaped. Fields that a reader does not know are to be passed over; a
change that an older reader would get wrong raises `version`.
"""

import json
from typing import Annotated, Literal

import msgspec

from ebbtide.app.safe_text import whole_text
from ebbtide.app.store.errors import BadImport
from ebbtide.app.store.records import Chat, Message, Role, State
from ebbtide.app.store.store import ChatStore
from ebbtide.app.store.titles import given_title
from ebbtide.engine.messages import Timings, Usage

VERSION = 1
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=32_503_680_000_000)]
"""Up to the year 3000, where the C libraries of some systems end."""


class FileHead(msgspec.Struct):
    """What is read first, since a later version may mean something else by the rest."""

    format: Literal["ebbtide-chat"]
    version: Count


class FileMessage(msgspec.Struct):
    number: Count
    parent: Count | None
    role: Role
    content: str
    thinking: str = ""
    state: State = "complete"
    finish_reason: str = ""
    model: str = ""
    usage: Usage | None = None
    timings: Timings | None = None
    left_out: bool = False
    created_ms: Milliseconds = 0
    updated_ms: Milliseconds = 0


class FileChat(msgspec.Struct):
    format: Literal["ebbtide-chat"]
    version: Count
    title: str
    messages: list[FileMessage]
    head: Count | None = None
    model: str = ""
    preset: str = ""
    system: str = ""
    created_ms: Milliseconds = 0
    updated_ms: Milliseconds = 0
    queued: list[str] = []


def export_json(store: ChatStore, chat_id: str) -> str:
    """The text of the file. Raises UnknownChat."""
    chat, messages = store.get_chat(chat_id), store.whole_tree(chat_id)
    numbers = {message.id: number for number, message in enumerate(messages, start=1)}
    file = FileChat(
        format="ebbtide-chat",
        version=VERSION,
        title=chat.title,
        messages=[_to_file(message, numbers) for message in messages],
        head=None if chat.head_id is None else numbers[chat.head_id],
        model=chat.model,
        preset=chat.preset,
        system=chat.system,
        created_ms=chat.created_ms,
        updated_ms=chat.updated_ms,
        queued=store.load_queue(chat_id),
    )
    return json.dumps(msgspec.to_builtins(file), indent=2) + "\n"


def import_json(store: ChatStore, text: str | bytes) -> Chat:
    """Add the chat of such a file to the store, under a new id. Raises BadImport."""
    file = _read(text)
    chat = Chat(
        id="",
        title=given_title(file.title),
        created_ms=file.created_ms,
        updated_ms=file.updated_ms,
        model=whole_text(file.model),
        preset=whole_text(file.preset),
        system=whole_text(file.system),
        head_id=file.head,
        message_count=len(file.messages),
        is_named=bool(file.title),
    )
    added = store.add_chat(chat, [_from_file(message) for message in file.messages], file.head)
    if file.queued:
        store.save_queue(added.id, file.queued)
    return added


def _read(text: str | bytes) -> FileChat:
    try:
        head = msgspec.json.decode(text, type=FileHead)
        if head.version > VERSION:
            raise BadImport(f"its version is {head.version}, and this ebbtide knows versions up to {VERSION}")
        file = msgspec.json.decode(text, type=FileChat)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadImport(str(error)) from error
    _check_tree(file)
    return file


def _check_tree(file: FileChat) -> None:
    seen: set[int | None] = {None}
    for message in file.messages:
        if message.number in seen:
            raise BadImport(f"two messages have the number {message.number}")
        if message.parent not in seen:
            raise BadImport(f"message {message.number} comes before its parent {message.parent}")
        seen.add(message.number)
    if file.head not in seen:
        raise BadImport(f"there is no message {file.head}, which is said to be the head")


def _to_file(message: Message, numbers: dict[int, int]) -> FileMessage:
    fields = msgspec.structs.asdict(message)
    number, parent = numbers[fields.pop("id")], fields.pop("parent_id")
    del fields["chat_id"]
    return FileMessage(number=number, parent=None if parent is None else numbers[parent], **fields)


def _from_file(message: FileMessage) -> Message:
    fields = msgspec.structs.asdict(message)
    fields |= {name: whole_text(fields[name]) for name in ("content", "thinking", "finish_reason", "model")}
    return Message(id=fields.pop("number"), chat_id="", parent_id=fields.pop("parent"), **fields)
