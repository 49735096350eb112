"""The piece of a text around the first match, on one line and safe to show."""

import re

from ebbtide.app.safe_text import safe_line
from ebbtide.app.store.records import Snippet

BEFORE = 32
"""Characters kept in front of the first match."""
LENGTH = 120
CUT = "…"


def snippet(text: str, terms: list[str]) -> Snippet:
    """A match that differs by accents only is not found again here: then the beginning is shown, unmarked."""
    line = safe_line(text)
    pattern = re.compile("|".join(re.escape(term) for term in terms), re.IGNORECASE)
    first = pattern.search(line)
    begin = _word_start(line, first.start()) if first else 0
    piece = line[begin : begin + LENGTH]
    before = CUT if begin else ""
    after = CUT if begin + LENGTH < len(line) else ""
    found = pattern.finditer(before + piece, len(before))
    return Snippet(before + piece + after, tuple(match.span() for match in found))


def _word_start(line: str, match: int) -> int:
    """At most BEFORE characters in front of `match`, not in the middle of a word if that can be helped."""
    earliest = max(0, match - BEFORE)
    space = line.find(" ", earliest, match)
    return 0 if earliest == 0 else earliest if space < 0 else space + 1
