"""Titles of chats, and the names of files made from them."""

import itertools
import re
from collections.abc import Container

from rich.cells import cell_len, set_cell_size

from ebbtide.app.safe_text import safe_line
from ebbtide.app.store.records import Chat

TITLE_CELLS = 60
MAX_TITLE_LENGTH = 200
"""Characters of a title that a person gives."""
NAME_LENGTH = 48
CUT = "…"
_NUMBER = re.compile(r" \(\d+\)$")


def given_title(text: str) -> str:
    """A title as a person typed it: one line without control characters."""
    return safe_line(text)[:MAX_TITLE_LENGTH].rstrip()


def title_of(question: str) -> str:
    """The first line of a question that says something, cut at a word to what one row can hold."""
    lines = (safe_line(line) for line in question.splitlines())
    line = next(filter(_says_something, lines), safe_line(question))[:MAX_TITLE_LENGTH]
    return line if cell_len(line) <= TITLE_CELLS else _cut(line)


def _says_something(line: str) -> bool:
    return any(map(str.isalnum, line)) and not line.startswith(("```", "~~~"))


def _cut(line: str, cells: int = TITLE_CELLS) -> str:
    kept = ""
    for word in line.split(" "):
        longer = f"{kept} {word}".strip()
        if cell_len(longer) >= cells:
            break
        kept = longer
    if cell_len(kept) < cells // 2:  # one long word: a path, a script without spaces
        kept = set_cell_size(line, cells - 1)
    return kept.rstrip(" ,;:") + CUT


def numbered_title(title: str, taken: Container[str]) -> str:
    """The title of a copy, "Sky (2)": with the first number that is free. A chat without a title has none."""
    if not title:
        return ""
    base = _NUMBER.sub("", title)
    return next(
        copy for copy in (_numbered(base, number) for number in itertools.count(2)) if copy not in taken
    )


def _numbered(base: str, number: int) -> str:
    """One row holds it, so that the number can be seen."""
    behind = f" ({number})"
    room = TITLE_CELLS - len(behind)
    return (base if cell_len(base) <= room else _cut(base, room)) + behind


def file_name(chat: Chat, suffix: str) -> str:
    """ "k7m2qx-why-is-the-sky-blue.md": letters, digits and hyphens, whatever the title is."""
    words = "-".join(re.findall(r"[^\W_]+", chat.title.lower()))[:NAME_LENGTH].strip("-")
    return f"{chat.id}-{words}.{suffix}" if words else f"{chat.id}.{suffix}"
