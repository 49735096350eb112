"""Groups the closed blocks of a long answer into parts, each of which is rendered by itself.

Adding to a part costs time in proportion to the part, so an answer of a thousand blocks stays as quick as a
short one. Where a part ends depends on the text alone, not on how it was cut when it came.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ebbtide.app.code_blocks import markdown_parser
from ebbtide.app.markdown_blocks import BlockSplitter

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

PART_BLOCKS = 20
_BEGINS_ANEW = re.compile(r"(?:#{1,6}\s|```|~~~|[^\W\d_])")
"""A heading, a fence, a letter at the margin: nothing that could go on with a list, a quote or a table."""


class Closed(NamedTuple):
    """Text that is final. `begins_part`: it does not belong to the same part as what came before."""

    text: str
    begins_part: bool


class PartSplitter:
    """A BlockSplitter that also tells where parts begin."""

    def __init__(self) -> None:
        self._splitter = BlockSplitter()
        self._blocks = 0
        self._part = ""

    @property
    def rest(self) -> str:
        """What is not closed yet."""
        return self._splitter.rest

    def push(self, text: str) -> list[Closed]:
        """Add text; returns what it closed, neighbours of one part joined."""
        return self._in_parts(self._splitter.push_blocks(text))

    def flush(self) -> list[Closed]:
        """The end of the answer: whatever is left, closed or not."""
        rest = self._splitter.flush()
        return self._in_parts([rest] if rest else [])

    def _in_parts(self, blocks: list[str]) -> list[Closed]:
        closed: list[Closed] = []
        for block in blocks:
            begins = self._begins_part(block)
            self._blocks = 1 if begins else self._blocks + 1
            self._part = block if begins else self._part + block
            if closed and not begins:
                closed[-1] = Closed(closed[-1].text + block, closed[-1].begins_part)
            else:
                closed.append(Closed(block, begins))
        return closed

    def _begins_part(self, block: str) -> bool:
        return (
            self._blocks >= PART_BLOCKS
            and _BEGINS_ANEW.match(block) is not None
            and _stands_alone(self._part, block)
        )


def _stands_alone(before: str, block: str) -> bool:
    """Whether `block` is inside nothing that `before` has begun: how blocks were cut is only a good guess."""
    line = before.count("\n")
    return any(
        token.level == 0 and token.map is not None and token.map[0] == line
        for token in _block_parser().parse(before + block)
    )


@cache
def _block_parser() -> "MarkdownIt":
    """Finds blocks, and does not look into them."""
    parser = markdown_parser()
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
