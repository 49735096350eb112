"""A chat under new ids: what fork and import have in common."""

from collections.abc import Iterable

import msgspec

from ebbtide.app.store.ids import MessageIds, new_chat_id
from ebbtide.app.store.records import Chat, Message


def copy_of(
    chat: Chat, messages: Iterable[Message], head_id: int | None, ids: MessageIds
) -> tuple[Chat, list[Message]]:
    """`messages` have parents before children, and `head_id` is one of them or None.

    Nobody goes on writing a copy, so what was partial is stopped.
    """
    chat_id = new_chat_id()
    new_ids: dict[int | None, int | None] = {None: None}
    copies = []
    for message in messages:
        new_id = ids.next()
        copies.append(
            msgspec.structs.replace(
                message,
                id=new_id,
                chat_id=chat_id,
                parent_id=new_ids[message.parent_id],
                state="stopped" if message.state == "partial" else message.state,
            )
        )
        new_ids[message.id] = new_id
    return msgspec.structs.replace(
        chat, id=chat_id, head_id=new_ids[head_id], message_count=len(copies)
    ), copies
