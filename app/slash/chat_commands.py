"""Commands about whole chats."""

from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from ebbtide.app.safe_text import safe_line
from ebbtide.app.screens.picker import Choice, Picker
from ebbtide.app.slash.registry import Command
from ebbtide.app.store import Hit, export_json, export_markdown, file_name
from ebbtide.app.when import when
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

MOST_CHATS = 500
NO_HIT = "No chat has these words."
TITLE_CELLS = 24
"""Of the chat that a found message is in."""
EXPORTS = ("md", "json")


async def new(screen: "ChatScreen", argument: str) -> None:
    await screen.changes.new()


async def chats(screen: "ChatScreen", argument: str) -> None:
    """Choose a chat to open."""
    keeper = screen.session.keeper
    rows = [
        Choice(
            chat.id, safe_line(chat.title) or "(no title)", f"{when(chat.updated_ms)} · {chat.message_count}"
        )
        for chat in keeper.store.list_chats(MOST_CHATS)
    ]
    if not rows:
        screen.note("There are no chats yet.", passing=True)
        return
    screen.pick("Chats", rows, screen.changes.open)


async def search(screen: "ChatScreen", argument: str) -> None:
    """Search in all chats, as it is typed."""
    store = screen.session.keeper.store

    def find(query: str) -> list[Choice]:
        return [
            Choice(
                f"{hit.chat_id} {hit.message_id or ''}",
                safe_line(hit.snippet.text),
                _where(hit),
            )
            for hit in (store.search(query) if query.strip() else [])
        ]

    async def chosen(value: str | None) -> None:
        if value is not None:
            await screen.guarded(screen.changes.open_hit(value))

    screen.app.push_screen(Picker("Search all chats", find, argument, NO_HIT), chosen)


def _where(hit: Hit) -> str:
    """Of a message: its chat, cut at the end; a chat's title is in front already."""
    at = when(hit.created_ms)
    if hit.message_id is None:
        return at
    title = Content(safe_line(hit.title)).truncate(TITLE_CELLS, ellipsis=True)
    return f"{title.plain} · {at}"


async def rename(screen: "ChatScreen", argument: str) -> None:
    if not argument:
        raise UsageError("A title is missing", hint="For example: /rename Parsing dates")
    screen.session.keeper.rename(argument)
    screen.hint(f"Renamed to “{argument}”.")


async def delete(screen: "ChatScreen", argument: str) -> None:
    """Remove the chat for good, if the person writes `/delete yes`."""
    chat = screen.session.keeper.chat
    if chat is None:
        raise UsageError("This chat has not begun", hint="There is nothing to delete.")
    if argument != "yes":
        raise UsageError("A deleted chat cannot be brought back", hint="Write: /delete yes")
    await screen.changes.new()
    screen.session.keeper.store.delete_chat(chat.id)
    screen.note(f"“{chat.title}” is deleted.", passing=True)


async def export(screen: "ChatScreen", argument: str) -> None:
    """Write the chat to a file: a name, a folder, or the folder that ebbtide was started in."""
    kind, _, name = (argument or "md").partition(" ")
    if kind not in EXPORTS:
        raise UsageError(f"{kind!r} is no format", hint="Write: /export md, or /export json")
    keeper = screen.session.keeper
    if keeper.chat is None:
        raise UsageError("This chat has not begun", hint="There is nothing to export.")
    path = _target(screen.tools.folder, name.strip(), file_name(keeper.chat, kind))
    text = (export_markdown if kind == "md" else export_json)(keeper.store, keeper.chat.id)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="Give another name.") from error
    screen.note(f"Exported to {path}")


def _target(folder: Path, given: str, usual_name: str) -> Path:
    """The whole path of a file that is not there yet. Raises UsageError for a home that is not known."""
    try:
        path = folder.absolute() / Path(given).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{safe_line(given)} is not known: {error}", hint="Write the whole path.") from error
    return _free_path(path / usual_name if path.is_dir() else path)


def _free_path(path: Path) -> Path:
    """Never overwrite a file."""
    number, free = 2, path
    while free.exists():
        free, number = path.with_stem(f"{path.stem}-{number}"), number + 1
    return free


async def leave(screen: "ChatScreen", argument: str) -> None:
    screen.leaving.leave("/quit")


COMMANDS = [
    Command("new", "begin a new chat", "chat", new, aliases=("clear",)),
    Command("chats", "open an earlier chat", "chat", chats, aliases=("resume", "open")),
    Command("search", "search all chats", "chat", search, "[WORDS]", aliases=("find",)),
    Command("rename", "give this chat a title", "chat", rename, "TITLE", needs_argument=True),
    Command(
        "export",
        "write this chat to a file",
        "chat",
        export,
        "md|json [FILE|FOLDER]",
        choices=lambda screen: list(EXPORTS),
    ),
    Command("delete", "remove this chat for good", "chat", delete, "yes"),
    Command("quit", "leave", "chat", leave, key="Ctrl+D", aliases=("bye", "exit", "q")),
]
