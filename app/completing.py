"""What a half-typed prompt may become: `/` commands and their arguments, `@` files."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ebbtide.app.files.listing import ListedFile
from ebbtide.app.files.matching import match_files
from ebbtide.app.files.mentions import find_mentions
from ebbtide.app.widgets.completions import MOST_ROWS, Completion

if TYPE_CHECKING:
    from pathlib import Path

    from ebbtide.app.screens.chat import ChatScreen
    from ebbtide.app.slash.registry import Registry
from ebbtide.app.token_rate import TokenRate

_FILE = re.compile(r'(?:^|[\s(\[])@("?)([^\s"]*)$')
_MENTIONING_BYTES = 20_000
"""Longer prompts are not searched for mentions at every key."""


def complete_command(typed: str, registry: "Registry", screen: "ChatScreen") -> list[Completion]:
    """`typed`: the whole prompt up to the cursor, one line."""
    if not typed.startswith("/") or "\n" in typed:
        return []
    name, space, argument = typed[1:].partition(" ")
    if not space:
        return [
            Completion(f"/{command.name}" + (" " if command.arguments else ""), command.summary, len(typed))
            for command in registry.starting_with(name)
        ]
    call = registry.parse(typed if argument else f"/{name}")
    if call is None or call.command is None or call.command.choices is None or " " in argument:
        return []
    return [
        Completion(choice, "", len(argument))
        for choice in call.command.choices(screen)
        if choice.startswith(argument) and choice != argument
    ]


def complete_file(
    before_cursor: str, files: Callable[[], Sequence[ListedFile]], rate: TokenRate
) -> list[Completion]:
    """Files for an `@` that is being typed, with about what they cost."""
    match = _FILE.search(before_cursor)
    if match is None:
        return []
    typed = match.group(2)
    return [
        Completion(
            f'@"{file.path}" ' if " " in file.path else f"@{file.path} ",
            f"~{rate.tokens(file.size_bytes):,} tokens",
            len(match.group(1)) + len(typed) + 1,
        )
        for file in match_files(typed, files(), MOST_ROWS)
        if file.path != typed
    ]


def cost_of(text: str, whole_size: int, folder: "Path", rate: TokenRate) -> str:
    """About how many tokens a prompt costs, with its files; empty while it is little."""
    mentions = find_mentions(text, folder) if len(text) <= _MENTIONING_BYTES else []
    tokens = rate.tokens(whole_size + sum(mention.size_bytes for mention in mentions))
    return f"~{tokens:,} tokens" if mentions or tokens >= 500 else ""
