"""The blocks of Markdown: each knows its rows at a width."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from ebbtide.app.rendering.code import code_label, code_rows, colored_lines
from ebbtide.app.rendering.rows import BLANK, NARROWEST, Block, Look, Row, beside, wrapped

HEADINGS = (".answer--title", ".answer--heading", ".answer--subheading")
"""By level."""
BULLETS = ("• ", "◦ ", "▪ ")
"""By depth."""
QUOTE_BAR = "▌ "
NUMBER_CELLS = 4
"""Of the mark of a numbered item, from the first on: a list that grows past 9 moves nothing. Past 99 a mark
is wider, for its own item only.
"""


def numbered(mark: str) -> str:
    """The mark of a numbered item ("1. "), with the space in front that it takes to stand below others."""
    return mark.rjust(NUMBER_CELLS)


def stacked(blocks: Sequence[Block], width: int, look: Look, *, airy: bool = True) -> list[Row]:
    """Blocks below each other, with an empty row between them; a list stands right below its words."""
    rows: list[Row] = []
    for number, block in enumerate(blocks):
        if number and airy and not (isinstance(block, Items) and isinstance(blocks[number - 1], Words)):
            rows.append(BLANK)
        rows += block.rows(width, look)
    return rows


def indented(
    blocks: Sequence[Block],
    width: int,
    look: Look,
    first: Content,
    rest: Content,
    *,
    airy: bool,
    is_ornament: bool = False,
) -> list[Row]:
    """Blocks behind a mark, which gives way where there is no room for both."""
    if width - first.cell_length < NARROWEST:
        return stacked(blocks, width, look, airy=airy)
    rows = stacked(blocks, width - first.cell_length, look, airy=airy) or [BLANK]
    return beside(rows, first, rest, is_ornament=is_ornament)


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: Content

    def rows(self, width: int, look: Look) -> list[Row]:
        return wrapped(self.text, width)


@dataclass(frozen=True)
class Heading:
    text: Content
    level: int

    def rows(self, width: int, look: Look) -> list[Row]:
        return wrapped(self.text.stylize_before(HEADINGS[min(self.level, len(HEADINGS)) - 1]), width)


@dataclass(frozen=True)
class Rule:
    def rows(self, width: int, look: Look) -> list[Row]:
        return [Row(Content.styled("─" * width, ".answer--rule"), is_text=False)]


@dataclass(frozen=True)
class Code:
    """`number` counts the code blocks of one answer; `/copy NUMBER` means it."""

    code: str
    language: str
    number: int

    def rows(self, width: int, look: Look) -> list[Row]:
        lines = self.code.rstrip("\n").split("\n")
        colored = colored_lines(lines, self.language, look)
        rows = [code_label(self.language, self.number, width)]
        for line, content in zip(lines, colored, strict=True):
            rows += code_rows(line, content, width)
        return rows


@dataclass(frozen=True)
class Quote:
    blocks: list[Block]

    def rows(self, width: int, look: Look) -> list[Row]:
        bar = Content.styled(QUOTE_BAR, ".answer--mark")
        return indented(self.blocks, width, look, bar, bar, airy=True, is_ornament=True)


@dataclass(frozen=True)
class Items:
    """A list. `loose`: with empty rows between the items."""

    marks: list[str]
    items: list[list[Block]]
    loose: bool

    def rows(self, width: int, look: Look) -> list[Row]:
        rows: list[Row] = []
        for number, (mark, blocks) in enumerate(zip(self.marks, self.items, strict=True)):
            if number and self.loose:
                rows.append(BLANK)
            first, rest = Content.styled(mark, ".answer--mark"), Content(" " * len(mark))
            rows += indented(blocks, width, look, first, rest, airy=self.loose)
        return rows
