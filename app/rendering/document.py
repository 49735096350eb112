"""An answer that grows: closed blocks as Markdown, the open one in the same shape below them.

What was rendered stays; adding text costs time for the last block only, and rows are made anew when the width
changes. A link's definition counts in the whole answer, so one that comes late is looked for in all of it.
"""

from typing import Any

from ebbtide.app.growing_markdown import GrowingMarkdown
from ebbtide.app.markdown_parts import Closed
from ebbtide.app.rendering.blocks import Items, Quote
from ebbtide.app.rendering.build import Builder
from ebbtide.app.rendering.open_block import OpenBlock
from ebbtide.app.rendering.rows import BLANK, Block, Look, Row


class _Placed:
    """A block, and its rows at the width they were last asked for."""

    def __init__(self, block: Block, next_number: int) -> None:
        self.block, self.next_number = block, next_number
        self._rows: list[Row] = []
        self._made_for: tuple[int, Look] | None = None

    def rows(self, width: int, look: Look) -> list[Row]:
        if self._made_for != (width, look):
            self._rows = self.block.rows(width, look)
            self._made_for = width, look
        return self._rows


class _Part:
    """Blocks that are parsed together."""

    def __init__(self, references: dict[str, Any]) -> None:
        self.growing = GrowingMarkdown(references)
        self.blocks: list[_Placed] = []


class Document:
    """`open_text` may be set at any time; `append` adds what is final."""

    def __init__(self) -> None:
        self.open_text = ""
        self._open = OpenBlock()
        self._references: dict[str, Any] = {}
        self._parts = [_Part(self._references)]

    @property
    def source(self) -> str:
        """What was appended."""
        return "".join(part.growing.source for part in self._parts)

    def append(self, closed: list[Closed]) -> None:
        """Add final text, block by block."""
        known = len(self._references)
        for each in closed:
            if each.begins_part:
                self._parts.append(_Part(self._references))
            self._grow(each.text)
        if len(self._references) > known:
            self._render_again()

    def rows(self, width: int, look: Look, *, airy: bool = True) -> list[Row]:
        """All of it, at most `width` cells wide; each block is followed by an empty row, if `airy`."""
        gap = [BLANK] if airy else []
        rows: list[Row] = []
        for part in self._parts:
            for block in part.blocks:
                rows += block.rows(width, look)
                rows += gap
        open_rows = self._open_rows(width, look, airy, is_first=not rows)
        if open_rows:
            del rows[len(rows) - len(gap) :]  # it may go on with the list above it
            rows += open_rows
            rows += gap
        return rows

    def _open_rows(self, width: int, look: Look, airy: bool, is_first: bool) -> list[Row]:
        if not self.open_text.strip():
            return []
        part = self._parts[-1]
        goes_on = bool(part.blocks) and isinstance(part.blocks[-1].block, Items | Quote)
        return self._open.rows(
            self.open_text,
            part.growing.last_source if goes_on else "",
            width,
            look,
            number=self._next_number(len(self._parts) - 1),
            airy=airy,
            is_first=is_first,
        )

    def _grow(self, text: str) -> None:
        part = self._parts[-1]
        change = part.growing.append(text)
        del part.blocks[change.kept :]
        self._build(part, change.tokens, self._next_number(len(self._parts) - 1))

    def _render_again(self) -> None:
        """A definition has come that some brackets may have waited for."""
        for at, part in enumerate(self._parts):
            if "[" in part.growing.source:
                part.blocks = []
                self._build(part, part.growing.again().tokens, self._next_number(at))

    def _build(self, part: _Part, tokens: list[Any], next_number: int) -> None:
        for block, after in Builder(next_number).blocks(tokens):
            part.blocks.append(_Placed(block, after))

    def _next_number(self, at: int) -> int:
        """Of the first code block behind what part `at` holds now."""
        for part in reversed(self._parts[: at + 1]):
            if part.blocks:
                return part.blocks[-1].next_number
        return 1
