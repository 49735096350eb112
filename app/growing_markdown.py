"""Markdown that grows, as blocks: what has to be made anew when text is added.

Each time, parsing begins at the last block, which the new text may continue or change. What it was before,
and whether the text came in one piece, makes no difference to the outcome.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ebbtide.app.code_blocks import markdown_parser

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


class Change(NamedTuple):
    """The first `kept` blocks stay; `tokens` are those of all blocks behind them, which begin at `line`."""

    kept: int
    tokens: "list[Token]"
    line: int


class GrowingMarkdown:
    """`references`: the definitions of links in the answer, shared by its parts; parsing adds to them."""

    def __init__(self, references: dict[str, Any]) -> None:
        self.source = ""
        self._references = references
        self._blocks = 0
        self._last: list[Token] = []
        self._at = self._line = 0
        """Where the last block begins: in characters, and in lines."""

    @property
    def last_source(self) -> str:
        """The text of the last block, and what stands behind it."""
        return self.source[self._at :]

    def append(self, text: str) -> Change:
        """Add text. Only the last block may change by it."""
        self.source += text
        return self._parse()

    def again(self) -> Change:
        """All blocks, after a definition that came late."""
        self._blocks, self._last, self._at, self._line = 0, [], 0, 0
        return self._parse()

    def _parse(self) -> Change:
        text, line = self.source[self._at :], self._line
        tokens = _parser().parse(text, {"references": self._references})
        blocks = list(_blocks(tokens))
        before = self._blocks - bool(self._last)
        is_same = bool(blocks) and blocks[0] == self._last
        self._blocks = before + len(blocks)
        self._go_to(blocks[-1] if blocks else [], text)
        return Change(before + is_same, tokens[len(blocks[0]) :] if is_same else tokens, line)

    def _go_to(self, block: "list[Token]", text: str) -> None:
        """The next parse begins with this block, so its lines are counted from there."""
        lines = block[0].map[0] if block and block[0].map else 0
        self._last = [token.copy(map=token.map and [at - lines for at in token.map]) for token in block]
        self._at += sum(len(line) + 1 for line in text.split("\n")[:lines])
        self._line += lines


@cache
def _parser() -> "MarkdownIt":
    """One for all: to make one takes longer than to parse a paragraph, and it keeps nothing of a text."""
    return markdown_parser()


def _blocks(tokens: "list[Token]") -> "Iterator[list[Token]]":
    """The tokens of each block that stands in no other."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []
