"""`/compare`: which command races this chat's model with llama.cpp. A race wants the machine for itself."""

import shlex
from typing import TYPE_CHECKING

from ebbtide.app.safe_text import safe_line
from ebbtide.app.slash.registry import Command
from ebbtide.engine.messages import Load

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen


def race_command(load: Load) -> str:
    """The command line that races the same model with the same settings."""
    parts = ["ebbtide", "compare", load.path]
    for name, value, usual in (
        ("budget", load.budget, "auto"),
        ("threads", load.threads, 0),
        ("isa", load.isa, "auto"),
    ):
        if value != usual:
            parts += [f"--{name}", str(value)]
    return shlex.join(parts)


async def compare(screen: "ChatScreen", argument: str) -> None:
    command = safe_line(race_command(screen.session.load))
    screen.note(
        "A race with llama.cpp wants the machine for itself, so it runs outside the chat. Leave with /quit, "
        f"then:\n\n    {command}"
    )


COMMANDS = [Command("compare", "how to race this model with llama.cpp", "model", compare, key="F3")]
