"""Cuts streaming Markdown into closed blocks and one open rest.

Rendering Markdown that still grows costs time quadratic in the length of an open fence, list or table; so
only closed blocks are rendered, and the open one is shown as plain text until it closes.
"""

import re

_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r" {0,3}#{1,6}\s")


class BlockSplitter:
    """Feed text as it comes; get back the text that became final. Concatenated, the pieces are the input."""

    def __init__(self) -> None:
        self._line = ""
        self._block = ""
        self._fence = ""

    @property
    def rest(self) -> str:
        """What is not closed yet."""
        return self._block + self._line

    def push(self, text: str) -> str:
        """Add text; returns the blocks it closed, or an empty string."""
        return "".join(self.push_blocks(text))

    def push_blocks(self, text: str) -> list[str]:
        """As `push`, block by block."""
        *whole, self._line = (self._line + text).split("\n")
        closed = []
        for line in whole:
            self._block += line + "\n"
            if self._closes(line):
                closed.append(self._block)
                self._block = ""
        return closed

    def flush(self) -> str:
        """The end of the answer: whatever is left, closed or not."""
        rest, self._line, self._block, self._fence = self.rest, "", "", ""
        return rest

    def _closes(self, line: str) -> bool:
        """Whether a block ends after this line."""
        if self._fence:
            stripped = line.strip()
            ends = len(stripped) >= len(self._fence) and set(stripped) == {self._fence[0]}
            self._fence = "" if ends else self._fence
            return ends
        match = _FENCE.match(line)
        if match and not (match.group(1)[0] == "`" and "`" in match.group(2)):
            self._fence = match.group(1)
            return False
        return not line.strip() or _HEADING.match(line) is not None
