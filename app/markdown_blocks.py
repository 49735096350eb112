"""Cuts streaming Markdown into closed blocks and one open rest.

Rendering Markdown that still grows costs time quadratic in the length of an open fence, list or table; so
only closed blocks are rendered, and the open one is shown as plain text until it closes.

What is cut here decides only when text is rendered, never how: who renders looks again at the last block that
it has (`growing_markdown`).
"""

import re
from typing import NamedTuple

_MARKERS = r"(?:>[ \t]?|[-*+][ \t]+|\d{1,9}[.)][ \t]+)"
_FENCE = re.compile(rf"([ \t]*(?:{_MARKERS}[ \t]*)*)(`{{3,}}|~{{3,}})(.*)$")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_CODE_INDENT = 4


class _Fence(NamedTuple):
    """`quoted`, `listed`: it stands in a quote, in a list, and cannot outlive it."""

    marker: str
    quoted: bool
    listed: bool


class BlockSplitter:
    """Feed text as it comes; get back the text that became final. Concatenated, the pieces are the input."""

    def __init__(self) -> None:
        self._line = ""
        self._lines: list[str] = []
        self._fence: _Fence | None = None
        self._in_list = False
        self._after_blank = True

    @property
    def rest(self) -> str:
        """What is not closed yet."""
        return "".join(self._lines) + self._line

    def push(self, text: str) -> str:
        """Add text; returns the blocks it closed, or an empty string."""
        return "".join(self.push_blocks(text))

    def push_blocks(self, text: str) -> list[str]:
        """As `push`, block by block."""
        *whole, self._line = (self._line + text).split("\n")
        closed = []
        for line in whole:
            self._lines.append(line + "\n")
            if self._closes(line):
                closed.append("".join(self._lines))
                self._lines = []
        return closed

    def flush(self) -> str:
        """The end of the answer: whatever is left, closed or not."""
        rest = self.rest
        self.__init__()  # type: ignore[misc]
        return rest

    def _closes(self, line: str) -> bool:
        """Whether a block ends after this line."""
        if self._fence is not None and not self._outlived(self._fence, line):
            ends = _is_end(self._fence, line)
            self._fence = None if ends else self._fence
            self._after_blank = False
            return ends
        self._fence = self._opened(line)
        self._follow_lists(line)
        if self._fence is not None:
            return False
        return not line.strip() or _HEADING.match(line) is not None

    def _opened(self, line: str) -> _Fence | None:
        match = _FENCE.match(line)
        if match is None:
            return None
        before, marker, info = match.groups()
        listed = (self._in_list and before[:1].isspace()) or _LIST_ITEM.match(before) is not None
        is_code = not listed and _columns(before.rpartition(">")[2]) >= _CODE_INDENT
        if is_code or (marker[0] == "`" and "`" in info):
            return None
        return _Fence(marker, ">" in before, listed)

    def _follow_lists(self, line: str) -> None:
        """A list ends with a line at the margin behind an empty one."""
        if _LIST_ITEM.match(line):
            self._in_list = True
        elif self._after_blank and line[:1].strip():
            self._in_list = False
        self._after_blank = not line.strip()

    @staticmethod
    def _outlived(fence: _Fence, line: str) -> bool:
        """Whether the quote or list around a fence has ended before this line."""
        if fence.quoted and not fence.listed:
            return not line.lstrip().startswith(">")
        return fence.listed and line[:1].strip() not in ("", ">")


def _columns(space: str) -> int:
    return len(space.expandtabs(_CODE_INDENT))


def _is_end(fence: _Fence, line: str) -> bool:
    inner = (line.lstrip(" \t>") if fence.quoted else line).strip()
    return len(inner) >= len(fence.marker) and set(inner) == {fence.marker[0]}
