"""What can go wrong with the store, in words for a person; the errors of SQLite are translated here."""

import sqlite3
from typing import ClassVar

from ebbtide.engine.errors import EbbtideError

PRIMARY_CODE = 0xFF
"""SQLite's extended result codes carry the primary one in their low byte."""


class StoreError(EbbtideError):
    """Something that the store cannot do. Chatting can go on all the same."""

    keeps_in_memory: ClassVar[bool] = False
    """True: the change is made in memory, and on disk as soon as the disk takes it."""


class StoreTooNew(StoreError):
    """Written by a later version of ebbtide; it is left as it is."""


class StoreDamaged(StoreError):
    """The file is no store, or parts of it are overwritten."""


class StoreUnsaved(StoreError):
    """The disk does not take changes now: not writable, or an input/output error."""

    keeps_in_memory = True


class StoreFull(StoreUnsaved):
    """The disk is full."""

    exit_code = 4


class StoreBusy(StoreUnsaved):
    """Another program has kept the store locked for longer than anybody should."""


class BadImport(StoreError):
    """A file that is no exported chat."""

    exit_code = 2

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The file is not a chat that ebbtide can read: {reason}",
            hint="`ebbtide chats export ID --format json` writes such files.",
        )


class UnknownChat(StoreError):
    """There is no chat with that id, or not any more."""

    exit_code = 2

    def __init__(self, chat_id: str, nearest: list[str]) -> None:
        near = f"Near it: {', '.join(nearest)}. " if nearest else ""
        super().__init__(f"There is no chat {chat_id!r}", hint=f"{near}`ebbtide chats ls` lists all chats.")
        self.chat_id = chat_id
        self.nearest = nearest


class UnknownMessage(StoreError):
    """There is no such message in that chat, or not any more."""

    exit_code = 2

    def __init__(self, message_id: int) -> None:
        super().__init__(
            f"There is no message {message_id} in this chat",
            hint="Another ebbtide may have removed the chat; open it again.",
        )


def store_error(error: sqlite3.Error, where: str) -> StoreError:
    """The error of SQLite in our words; `where` names the file."""
    code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"The disk is full: chats are not saved in {where}",
                hint="They are kept in memory and saved once there is space; free some, or export this chat.",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(
                f"Another program keeps {where} locked",
                hint="Changes are kept in memory and saved when it is free; end programs that use this file.",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreDamaged(
                f"The chats in {where} are damaged: {error}",
                hint="Start ebbtide again: it moves the file aside, says where to, and begins a new one.",
            )
        case (
            sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_PERM
            | sqlite3.SQLITE_AUTH
        ):
            return StoreUnsaved(
                f"Chats cannot be saved in {where}: {error}",
                hint="They are kept in memory; check the disk, and the permissions of file and folder.",
            )
    return StoreError(f"The chat store failed: {error}", hint="Report it; the chat itself can go on.")
