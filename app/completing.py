"""What a half-typed prompt may become: `/` commands and their arguments, `@` files."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ebbtide.app.files.listing import ListedFile
from ebbtide.app.files.matching import match_files
from ebbtide.app.files.mentions import MOST_BYTES, around_file, find_mentions
from ebbtide.app.files.peek import Peeks
from ebbtide.app.token_counts import Cost, TokenCounts
from ebbtide.app.widgets.completions import MOST_ROWS, NONE, Completion

if TYPE_CHECKING:
    from pathlib import Path

    from ebbtide.app.screens.chat import ChatScreen
    from ebbtide.app.slash.registry import Registry

_FILE = re.compile(r'(?:^|[\s(\[])@("?)([^\s"]*)$')
_MENTIONING_CHARACTERS = 20_000
"""Longer prompts are not searched for mentions at every key."""
MOST_COUNTED_BYTES = 128 << 10
"""Of larger files a list says only about what they cost; they are counted when a prompt names them."""
MOST_OPENED = 64
"""Files that are looked into for one list: at one key it is found out of so many whether they are text."""


class Offer(NamedTuple):
    """What may be written. `marked`: the row that Enter takes at once; the others have to be moved to."""

    rows: list[Completion]
    marked: int = NONE


def complete_command(typed: str, registry: "Registry", screen: "ChatScreen") -> Offer:
    """`typed`: the whole prompt up to the cursor, one line.

    Enter takes the first command for a beginning only; what is written whole is left as it is.
    """
    if not typed.startswith("/") or "\n" in typed:
        return Offer([])
    name, space, argument = typed[1:].partition(" ")
    if not space:
        rows = [
            Completion(f"/{command.name}" + (" " if command.arguments else ""), command.summary, len(typed))
            for command in registry.starting_with(name)
        ]
        return Offer(rows, NONE if registry.has(name) else 0)
    call = registry.parse(typed if argument else f"/{name}")
    if call is None or call.command is None or call.command.choices is None or " " in argument:
        return Offer([])
    return Offer(
        [
            Completion(choice, "", len(argument))
            for choice in call.command.choices(screen)
            if choice.startswith(argument) and choice != argument
        ]
    )


class FileCosts:
    """What files of one folder are and cost, for lists of them and for prompts that name them."""

    def __init__(self, folder: "Path", counts: TokenCounts) -> None:
        self._folder, self._counts, self._peeks = folder, counts, Peeks()

    def completions(self, before_cursor: str, files: Callable[[], Sequence[ListedFile]]) -> Offer:
        """Text files for an `@` that is being typed, with what they cost; the one whose name is written whole
        is marked, and offered only where others have a longer name.
        """
        match = _FILE.search(before_cursor)
        if match is None:
            return Offer([])
        typed = match.group(2)
        most_opened = self._peeks.opened + MOST_OPENED

        def is_offered(file: ListedFile) -> bool:
            return self._peeks.opened < most_opened and self._peeks.is_text(self._folder / file.path)

        found = match_files(typed, files(), MOST_ROWS, is_offered)
        paths = [file.path for file in found]
        if paths == [typed]:
            return Offer([])
        rows = [
            Completion(
                f'@"{path}" ' if " " in path else f"@{path} ",
                str(self._of_file(self._folder / path, MOST_COUNTED_BYTES)),
                len(match.group(1)) + len(typed) + 1,
            )
            for path in paths
        ]
        return Offer(rows, paths.index(typed) if typed in paths else NONE)

    def of_prompt(self, text: str, parts: Sequence[str]) -> Cost:
        """Of a prompt with the files that it names. `text` has chips; `parts` are those of `Pastes.parts`."""
        cost = self._counts.cost(parts)
        for mention in find_mentions(text, self._folder) if len(text) <= _MENTIONING_CHARACTERS else []:
            around = self._counts.cost([around_file(mention)])
            inside = self._of_file(mention.path, MOST_BYTES)
            tokens = cost.tokens + around.tokens + inside.tokens
            cost = Cost(tokens, cost.is_estimate or around.is_estimate or inside.is_estimate)
        return cost

    def _of_file(self, path: "Path", most_bytes: int) -> Cost:
        content = self._peeks.text(path, most_bytes)
        return (
            self._counts.about(self._peeks.usual_tokens(path))
            if content is None
            else self._counts.cost([content])
        )
