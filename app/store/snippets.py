"""The piece of a text around the first match, on one line and safe to show."""

import re

from ebbtide.app.safe_text import safe_line
from ebbtide.app.store.records import Snippet

BEFORE = 16
"""Characters kept in front of the first match: in the narrowest list the match is in view."""
LENGTH = 120
CUT = "…"
TITLE_SEEN, TITLE_HEAD = 44, 20
"""Characters of a title that any list shows; and of its beginning, where the match is beyond those."""


def snippet(text: str, terms: list[str]) -> Snippet:
    """A match that differs by accents only is not found again here: then the beginning is shown, unmarked."""
    line = safe_line(text)
    pattern, first = _first(line, terms)
    begin = _word_start(line, first.start()) if first else 0
    piece = line[begin : begin + LENGTH]
    before = CUT if begin else ""
    after = CUT if begin + LENGTH < len(line) else ""
    found = pattern.finditer(before + piece, len(before))
    return Snippet(before + piece + after, tuple(match.span() for match in found))


def title_snippet(title: str, terms: list[str]) -> Snippet:
    """A title is known by its beginning: it is left whole, but for what is between that and a late match."""
    line = safe_line(title)
    pattern, first = _first(line, terms)
    if first is not None and first.end() > TITLE_SEEN:
        head = line[: line.rfind(" ", 0, TITLE_HEAD + 1)] if " " in line[:TITLE_HEAD] else line[:TITLE_HEAD]
        line = f"{head} {CUT} {line[_word_start(line, first.start()) :]}"
    return Snippet(line, tuple(match.span() for match in pattern.finditer(line)))


def _first(line: str, terms: list[str]) -> tuple[re.Pattern[str], re.Match[str] | None]:
    """The first match, and how to find the others: beginnings of words, or else anything."""
    anywhere = "|".join(re.escape(term) for term in terms)
    for expression in (rf"(?<!\w)(?:{anywhere})", anywhere):
        pattern = re.compile(expression, re.IGNORECASE)
        if match := pattern.search(line):
            return pattern, match
    return pattern, None


def _word_start(line: str, match: int) -> int:
    """At most BEFORE characters in front of `match`, not in the middle of a word if that can be helped."""
    earliest = max(0, match - BEFORE)
    space = line.find(" ", earliest, match)
    return 0 if earliest == 0 else earliest if space < 0 else space + 1
