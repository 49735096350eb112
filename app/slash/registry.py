"""What a command is, and how the one that a person means is found."""

import os
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ebbtide.app.near import nearest
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

Group = Literal["chat", "answer", "model", "screen"]
GROUP_TITLES: dict[Group, str] = {
    "chat": "Chats",
    "answer": "Turns and answers",
    "model": "Model and memory",
    "screen": "Screen",
}
Run = Callable[["ChatScreen", str], Awaitable[None]]
"""Gets the screen and what was written behind the command's name."""
Choices = Callable[["ChatScreen"], list[str]]
"""What may be written behind the name; called while the person types, so it must be quick."""


@dataclass(frozen=True)
class Command:
    """One command. `run` may raise EbbtideError: the screen shows it with its hint."""

    name: str
    summary: str
    group: Group
    run: Run
    arguments: str = ""
    """As in a help text: `TITLE`, `[N]`, `md|json`."""
    key: str = ""
    """A key that does the same, in words."""
    aliases: tuple[str, ...] = ()
    choices: Choices | None = None
    needs_argument: bool = False

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()


class Call(NamedTuple):
    """A line taken apart. `command` None: there is none of that name."""

    name: str
    argument: str
    command: Command | None


def parts_of(text: str, known: Container[str]) -> tuple[str, str] | None:
    """Name and argument of a line that calls a command, be it a mistyped one; None for a question.

    `/etc/passwd is a path` and `/tmp is full` are questions: they begin with a path. `known`: all commands.
    """
    line = text.strip()
    word, argument = [*line.split(maxsplit=1), "", ""][:2]
    name = word[1:]
    if not word.startswith("/") or "\n" in line or "/" in name or not name:
        return None
    if name.casefold() not in known and (not name.replace("-", "").isalnum() or os.path.lexists(word)):
        return None
    return name, argument


def nearest_of(name: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that a mistyped one may mean, the likeliest first."""
    names = list(names)
    near = [known for known in names if known.startswith(name.casefold())]
    near += nearest(name, names, 3)
    return list(dict.fromkeys(near))[:3]


def no_such_command(name: str, near: Iterable[str]) -> UsageError:
    """What is said of a name that no command has; `near`: names that may be meant."""
    meant = " or ".join(f"/{known}" for known in near)
    return UsageError(
        f"There is no command /{name}.", hint=f"Did you mean {meant}?" if meant else "/help lists them."
    )


class Registry:
    """All commands, in the order in which the help lists them."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = list(commands)
        self._by_name = {
            name: command for command in self.commands for name in (command.name, *command.aliases)
        }

    def parse(self, text: str) -> Call | None:
        """The command that `text` calls, or None if it is a question."""
        parts = parts_of(text, self._by_name)
        return None if parts is None else Call(*parts, self._by_name.get(parts[0].casefold()))

    def has(self, name: str) -> bool:
        """Whether a command, or an alias, is called so."""
        return name.casefold() in self._by_name

    def nearest(self, name: str) -> list[str]:
        """Names that a mistyped one may mean, the likeliest first."""
        return nearest_of(name, self._by_name)

    def starting_with(self, typed: str) -> list[Command]:
        """Commands whose name, or else whose alias, begins so."""
        folded = typed.casefold()
        by_name = [command for command in self.commands if command.name.startswith(folded)]
        by_alias = [
            command
            for command in self.commands
            if command not in by_name and any(alias.startswith(folded) for alias in command.aliases)
        ]
        return by_name + by_alias
