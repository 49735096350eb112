"""What the special keys of the prompt do."""

import asyncio
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from ebbtide.app.editor import edit_text, editor_command
from ebbtide.app.safe_text import safe_line
from ebbtide.app.screens.picker import Choice
from ebbtide.app.slash.compare_command import compare
from ebbtide.app.slash.model_commands import model
from ebbtide.app.slash.registry import Command
from ebbtide.app.suspend import has_shell, suspend
from ebbtide.app.widgets.prompt import Wish
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

SHOWN_CHARACTERS = 300
NAME_CELLS = 12


async def fulfil(wish: Wish, screen: "ChatScreen") -> None:
    """Raises EbbtideError with a hint."""
    match wish:
        case "search history":
            search_history(screen)
        case "open editor":
            await open_editor(screen)
        case "select older":
            await screen.area.choice.do("older")
        case "select newer":
            await screen.area.choice.do("newer")
        case "unqueue":
            screen.questions.unqueue()
        case "send next":
            await screen.questions.send_next(by_person=True)
        case "palette":
            show_palette(screen)
        case "help":
            screen.show_help()
        case "compare":
            await compare(screen, "")
        case "models":
            await model(screen, "")
        case "resume":
            await screen.changes.resume()
        case "suspend":
            go_to_shell(screen)


def search_history(screen: "ChatScreen") -> None:
    """What was asked in all chats, the latest first; the chosen text comes into the prompt."""
    prompt, store = screen.prompt, screen.session.keeper.store

    def find(query: str) -> list[Choice]:
        here = [text for text in reversed(prompt.sent_before) if query.casefold() in text.casefold()]
        texts = dict.fromkeys([*here, *(prompt.pastes.collapse(text) for text in store.history(100, query))])
        return [Choice(text, safe_line(text[:SHOWN_CHARACTERS])) for text in texts]

    async def recall(text: str) -> None:
        prompt.put(text)

    screen.pick("What you wrote before", find, recall)


async def open_editor(screen: "ChatScreen") -> None:
    """The editor has the terminal until it ends; the engine works on meanwhile."""
    command = editor_command()
    try:
        with screen.app.suspend():
            text = edit_text(screen.prompt.whole_text, command)
    except SuspendNotSupported as error:
        raise UsageError("An editor cannot be opened here", hint="Write in the prompt.") from error
    screen.prompt.put(text)


def go_to_shell(screen: "ChatScreen") -> None:
    """Stop until the shell continues the program."""
    if has_shell():
        screen.area.save_draft()
        suspend(screen.app)
    else:
        screen.hint("Nothing to undo, and no shell to go back to.")


def show_palette(screen: "ChatScreen") -> None:
    """Every command of the registry."""
    commands = {command.name: command for command in screen.registry.commands}
    rows = [
        Choice(command.name, f"/{command.name:<{NAME_CELLS}} {command.summary}", command.key)
        for command in commands.values()
    ]

    async def run(name: str) -> None:
        await _run_from_palette(commands[name], screen)

    screen.pick("Commands", rows, run)


async def _run_from_palette(command: Command, screen: "ChatScreen") -> None:
    if command.needs_argument:
        screen.prompt.put(f"/{command.name} ")
    else:
        await command.run(screen, "")
    await asyncio.sleep(0)
