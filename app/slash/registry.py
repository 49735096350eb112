"""What a command is, and how the one that a person means is found."""

import difflib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

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


class Registry:
    """All commands, in the order in which the help lists them."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = list(commands)
        self._by_name = {
            name: command for command in self.commands for name in (command.name, *command.aliases)
        }

    def parse(self, text: str) -> Call | None:
        """The command that `text` calls, or None if it is a question: `/etc/passwd is a path` is one."""
        line = text.strip()
        word, _, argument = line.partition(" ")
        name = word[1:]
        if not word.startswith("/") or "\n" in line or "/" in name or not name:
            return None
        command = self._by_name.get(name.casefold())
        if command is None and (argument or not name.replace("-", "").isalnum()):
            return None
        return Call(name, argument.strip(), command)

    def has(self, name: str) -> bool:
        """Whether a command, or an alias, is called so."""
        return name.casefold() in self._by_name

    def nearest(self, name: str) -> list[str]:
        """Names that a mistyped one may mean, the likeliest first."""
        known = [known for known in self._by_name if known.startswith(name.casefold())]
        known += difflib.get_close_matches(name.casefold(), self._by_name, n=3, cutoff=0.5)
        return list(dict.fromkeys(known))[:3]

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
