"""The help, made from the registry and the keys."""

from ebbtide.app.slash.keys import KEYS
from ebbtide.app.slash.registry import GROUP_TITLES, Registry

COLUMN = 24


def help_text(registry: Registry) -> str:
    """Keys first, then the commands in groups; plain text in two columns."""
    parts = ["Keys", *(_row(key, what) for key, what in KEYS)]
    for group, title in GROUP_TITLES.items():
        commands = [command for command in registry.commands if command.group == group]
        if commands:
            parts += ["", title]
            parts += [_row(command.usage, _with_key(command.summary, command.key)) for command in commands]
    return "\n".join(parts)


def _row(left: str, right: str) -> str:
    return f"  {left:<{COLUMN}} {right}"


def _with_key(summary: str, key: str) -> str:
    return f"{summary} ({key})" if key else summary
