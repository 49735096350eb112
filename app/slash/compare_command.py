"""`/compare`: which command races this chat's model with llama.cpp. A race wants the machine for itself."""

import shlex
from typing import TYPE_CHECKING

from ebbtide.app.program import program
from ebbtide.app.safe_text import safe_line
from ebbtide.app.slash.registry import Command
from ebbtide.engine.messages import Load

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen


_USUAL = Load("")


def race_command(load: Load) -> str:
    """The command line that races the same model with the same settings."""
    parts = ["compare", load.path]
    for name in ("budget", "ctx", "threads", "isa", "device", "policy"):
        value = getattr(load, name)
        if value != getattr(_USUAL, name):
            parts += [f"--{name}", str(value)]
    if load.prefetch:
        parts.append("--prefetch")
    return f"{program()} {shlex.join(parts)}"


async def compare(screen: "ChatScreen", argument: str) -> None:
    command = safe_line(race_command(screen.session.load))
    screen.note(
        "A race with llama.cpp wants the machine for itself, so it runs outside the chat. Leave with /quit, "
        f"then:\n\n    {command}"
    )


COMMANDS = [Command("compare", "how to race this model with llama.cpp", "model", compare, key="F3")]
