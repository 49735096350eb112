"""The blocks of Markdown: each knows its rows at a width."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from ebbtide.app.rendering.rows import BLANK, NARROWEST, Block, Look, Row, beside, folded, wrapped
from ebbtide.app.safe_text import safe_line

HEADINGS = (".answer--title", ".answer--heading", ".answer--subheading")
"""By level."""
BULLETS = ("• ", "◦ ", "▪ ")
"""By depth."""
TAB_CELLS = 4
QUOTE_BAR = "▌ "
GOES_ON = "↪ "
"""In front of a line of code that is the rest of the one above it."""


def stacked(blocks: Sequence[Block], width: int, look: Look, *, airy: bool = True) -> list[Row]:
    """Blocks below each other, with an empty row between them; a list stands right below its words."""
    rows: list[Row] = []
    for number, block in enumerate(blocks):
        if number and airy and not (isinstance(block, Items) and isinstance(blocks[number - 1], Words)):
            rows.append(BLANK)
        rows += block.rows(width, look)
    return rows


def indented(
    blocks: Sequence[Block], width: int, look: Look, first: Content, rest: Content, *, airy: bool
) -> list[Row]:
    """Blocks behind a mark, which gives way where there is no room for both."""
    if width - first.cell_length < NARROWEST:
        return stacked(blocks, width, look, airy=airy)
    return beside(stacked(blocks, width - first.cell_length, look, airy=airy) or [BLANK], first, rest)


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
        return [Row(Content.styled("─" * width, ".answer--rule"))]


@dataclass(frozen=True)
class Code:
    """`number` counts the code blocks of one answer; `/copy NUMBER` means it."""

    code: str
    language: str
    number: int

    def rows(self, width: int, look: Look) -> list[Row]:
        from ebbtide.app.widgets.code_colors import colored  # after the first paint

        inside = max(width, NARROWEST) - 2
        text = self.code.rstrip("\n").expandtabs(TAB_CELLS)
        code = colored(text, self.language, ansi=look.ansi, dark=look.dark)
        lines = code.split("\n", allow_blank=True)
        rows = [row for line in lines for row in folded(line, inside, GOES_ON)]
        title = safe_line(self.language).partition(" ")[0] or "text"
        title = f"{title}  {self.number}"[-inside:].rjust(inside)
        return [
            Row(_on_paper(Content.styled(title, ".answer--code-title"), inside)),
            *(Row(_on_paper(row.content, inside), row.hang + 1, row.joint) for row in rows),
        ]


def _on_paper(line: Content, width: int) -> Content:
    """A line of a code block: on its background, with a space on both sides."""
    return line.pad(1, 1 + max(0, width - line.cell_length)).stylize_before(".answer--code")


@dataclass(frozen=True)
class Quote:
    blocks: list[Block]

    def rows(self, width: int, look: Look) -> list[Row]:
        bar = Content.styled(QUOTE_BAR, ".answer--mark")
        return indented(self.blocks, width, look, bar, bar, airy=True)


@dataclass(frozen=True)
class Items:
    """A list. `marks` are as wide as each other; `loose`: with empty rows between the items."""

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
