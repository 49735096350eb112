"""The help, made from the registry and the keys, for the width that there is."""

import textwrap

from ebbtide.app.slash.keys import KEYS
from ebbtide.app.slash.registry import GROUP_TITLES, Registry

COLUMN, NARROW_COLUMN = 26, 19
"""Cells of what is pressed or typed, with a space behind it."""
TWO_COLUMNS, WIDE = 40, 70
"""Narrower than the first, what it does stands behind or below what is typed."""
USUAL_WIDTH = 90


def help_text(registry: Registry, width: int = USUAL_WIDTH) -> str:
    """Keys first, then the commands in groups; titles are not indented, no line is wider than `width`."""
    parts = ["Keys", *(_row(key, what, width) for key, what in KEYS)]
    for group, title in GROUP_TITLES.items():
        commands = [command for command in registry.commands if command.group == group]
        if commands:
            parts += ["", title]
            parts += [
                _row(command.usage, _with_key(command.summary, command.key), width) for command in commands
            ]
    return "\n".join(parts)


def _row(left: str, right: str, width: int) -> str:
    column = COLUMN if width >= WIDE else NARROW_COLUMN if width >= TWO_COLUMNS else 0
    room = max(width - 2 - (column or 2), 1)
    lines = textwrap.wrap(right, room)
    if not column and len(left) + len(right) + 5 <= width:
        return f"  {left} · {right}"
    if len(left) >= column:  # no room beside it
        return "\n".join([f"  {left}", *(f"  {'':<{column or 2}}{line}" for line in lines)])
    return "\n".join([f"  {left:<{column}}{lines[0]}", *(f"  {'':<{column}}{line}" for line in lines[1:])])


def _with_key(summary: str, key: str) -> str:
    return f"{summary} ({key})" if key else summary
