"""A code block in an answer: a line with its language and number, then the code."""

from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Label, Markdown
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from ebbtide.app.code_blocks import markdown_parser
from ebbtide.app.growing_markdown import Change, GrowingMarkdown
from ebbtide.app.safe_text import safe_line
from ebbtide.app.widgets.code_colors import colored
from ebbtide.app.widgets.settled_size import SettledSize, settled


class CodeBlock(SettledSize, MarkdownFence):
    """`number` counts the blocks of one answer; `/copy NUMBER` means it."""

    number = 0

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        return colored(code, language, ansi=ansi, dark=dark)

    def compose(self) -> ComposeResult:
        yield Label(Content(self._title()), classes="code-title", markup=False)
        yield Label(self._highlighted_code, id="code-content", expand=True, markup=False)

    def set_number(self, number: int) -> None:
        """Known only when the block stands in its answer."""
        if number != self.number:
            self.number = number
            self.query_one(".code-title", Label).update(Content(self._title()))

    def _title(self) -> str:
        language = safe_line(self.lexer).partition(" ")[0] or "text"
        return f"{language}  {self.number}" if self.number else language


class AnswerMarkdown(SettledSize, Markdown):
    """Markdown whose code blocks are numbered; links are text, nothing is opened.

    Far from the view it sleeps: it keeps its height, and its blocks take no part in layouts, each of which
    costs about a third of a millisecond for every block of the chat.
    """

    BLOCKS = {  # noqa: RUF012 - declared so by Markdown
        **{name: settled(block) for name, block in Markdown.BLOCKS.items()},
        "fence": CodeBlock,
        "code_block": CodeBlock,
    }

    def __init__(self, numbered_from: int = 1, references: dict[str, Any] | None = None) -> None:
        """`references`: the definitions of links in the whole answer; this part adds its own."""
        super().__init__(parser_factory=markdown_parser, open_links=False)
        self.asleep = False
        self._growing = GrowingMarkdown({} if references is None else references)
        self._numbered_from = numbered_from
        self.next_number = numbered_from
        """Of the first code block behind this Markdown."""

    async def grow(self, text: str) -> None:
        """Add text; the outcome is that of all text at once. (Markdown's own `append` forgets definitions,
        and updates tables and lists only in part.)
        """
        await self._change(self._growing.append(text))

    async def render_again(self) -> None:
        """A definition has come that some brackets may have waited for."""
        if "[" in self._growing.source:
            await self._change(self._growing.again())

    async def _change(self, change: Change) -> None:
        self.wake()
        self._markdown = self._growing.source
        blocks = list(self._parse_markdown(change.tokens))
        for block in blocks:
            first, end = block.source_range
            block.source_range = first + change.line, end + change.line
        gone = [child for child in self.children if isinstance(child, MarkdownBlock)][change.kept :]
        with self.app.batch_update():
            if gone:
                await self.remove_children(gone)
            if blocks:
                await self.mount_all(blocks)
        self._number_blocks()

    def sleep(self) -> None:
        """Only for one that has been laid out: its height is kept."""
        if not self.asleep:
            self.asleep = True
            self.styles.height = self.size.height
            for block in self.children:
                block.display = False

    def wake(self) -> None:
        if self.asleep:
            self.asleep = False
            self.styles.height = "auto"
            for block in self.children:
                block.display = True

    def _number_blocks(self) -> None:
        self.next_number = self._numbered_from
        for block in self.query(CodeBlock):
            block.set_number(self.next_number)
            self.next_number += 1
