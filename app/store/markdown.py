"""A chat as a Markdown file: the branch that is shown, a heading for each turn."""

import re
import time

from ebbtide.app.safe_text import safe, safe_line
from ebbtide.app.store.records import Chat, Message
from ebbtide.app.store.store import ChatStore

_GOES_ON = "*The answer is still being written.*"
_FENCE = re.compile("```|~~~")
_ENDINGS = {
    "complete": "",
    "partial": "*The answer ends here: it was cut off.*",
    "stopped": "*The answer ends here: it was stopped.*",
    "failed": "*The answer ends here: it failed.*",
}


def export_markdown(store: ChatStore, chat_id: str) -> str:
    """The text of the file, without control characters. Raises UnknownChat."""
    chat = store.get_chat(chat_id)
    parts = [f"# {safe_line(chat.title) or 'Untitled chat'}", _about(chat)]
    if chat.system:
        parts += ["## System", _closed(chat.system)]
    growing = store.being_written(chat_id)
    for message in store.path(chat.head_id):
        parts += _turn(message, _GOES_ON if message.id in growing else _ENDINGS[message.state])
    for question in store.load_queue(chat_id):
        parts += ["## You", _closed(question), "*This question waits: it was not sent yet.*"]
    return "\n\n".join(parts) + "\n"


def _about(chat: Chat) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(chat.created_ms / 1000))
    return f"*Chat {chat.id}, begun {when}{f', {safe_line(chat.model)}' if chat.model else ''}*"


def _turn(message: Message, ending: str) -> list[str]:
    names = {"user": "You", "system": "System", "assistant": "Assistant"}
    model = f" ({safe_line(message.model)})" if message.model else ""
    parts = [
        f"## {names[message.role]}{model}",
        _quoted(message.thinking),
        _closed(message.content),
        ending,
    ]
    return [part for part in parts if part]


def _quoted(thinking: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in safe(thinking).strip().splitlines())


def _closed(text: str) -> str:
    """`text` as it is; a code fence that it leaves open is closed, or it would swallow the next turns."""
    whole = safe(text).strip("\n")
    fence = _open_fence(whole) if _FENCE.search(whole) else ""
    return f"{whole}\n{fence}" if fence else whole


def _open_fence(text: str) -> str:
    """The marks of a code fence that would swallow a heading below `text`, or an empty string."""
    from markdown_it import MarkdownIt  # takes longer than the rest of this package

    last = MarkdownIt().disable("inline").parse(f"{text}\n\n## Next")[-1]
    return last.markup if last.type == "fence" else ""
