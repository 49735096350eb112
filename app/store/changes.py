"""Changes that touch more than one table; each is run inside one transaction and may be repeated."""

import sqlite3
from collections.abc import Sequence

import msgspec

from ebbtide.app.store import chats, search, titles, tree, writers
from ebbtide.app.store.records import Chat, Message


def add_message(connection: sqlite3.Connection, message: Message, writer: str = "") -> None:
    """Add a leaf, show its branch, and name the chat after its first question; `writer` goes on writing it.

    Raises UnknownChat, and UnknownMessage for a parent that is not in the chat.
    """
    chat = chats.get(connection, message.chat_id)
    tree.insert(connection, message)
    if writer:
        writers.begin(connection, message.id, writer)
    chats.set_head(connection, chat.id, message.id)
    if message.role == "user" and not chat.title:
        chats.set_title(
            connection, chat.id, titles.title_of(message.content), message.created_ms, is_named=False
        )
    chats.touch(connection, chat.id, message.created_ms)


def finish_message(connection: sqlite3.Connection, message_id: int, fields: dict[str, object]) -> Message:
    """Put new values into `fields` of a message. Raises UnknownMessage."""
    message = msgspec.structs.replace(tree.get(connection, message_id), **fields)
    tree.replace(connection, message)
    if message.state != "partial":
        writers.end(connection, message_id)
    chats.touch(connection, message.chat_id, message.updated_ms)
    return message


def withdraw_message(connection: sqlite3.Connection, message_id: int, *, use_index: bool) -> None:
    """Remove a leaf; the head moves to its newest sibling's end, or to its parent. Raises UnknownMessage."""
    message = tree.get(connection, message_id)
    if not tree.remove_leaf(connection, message_id):
        return
    if use_index:
        search.forget(connection, message_id)
    left = tree.children(connection, message.chat_id, message.parent_id)
    if chats.get(connection, message.chat_id).head_id == message_id:
        head_id = tree.leaf_below(connection, left[-1]) if left else message.parent_id
        chats.set_head(connection, message.chat_id, head_id)


def set_active(connection: sqlite3.Connection, chat_id: str, leaf_id: int | None) -> None:
    """Raises UnknownChat, and UnknownMessage for a message of another chat."""
    if leaf_id is not None:
        tree.require(connection, chat_id, leaf_id)
        tree.remember_path(connection, leaf_id)
    chats.set_head(connection, chat_id, leaf_id)


def add_chat(connection: sqlite3.Connection, chat: Chat, messages: Sequence[Message]) -> None:
    """A chat with all its messages, parents first."""
    chats.create(connection, chat)
    for message in messages:
        tree.insert(connection, message)


def delete_chat(connection: sqlite3.Connection, chat_id: str, *, use_index: bool) -> None:
    """A chat, and what the index knows of it. Raises UnknownChat."""
    chats.delete(connection, chat_id)
    if use_index:
        search.forget_removed(connection)
