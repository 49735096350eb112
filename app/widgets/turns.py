"""What stands in the transcript: a question, an answer, a note."""

from markdown_it import MarkdownIt
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Markdown, Static

from ebbtide.app.markdown_blocks import BlockSplitter
from ebbtide.app.safe_text import safe


def _parser() -> MarkdownIt:
    """Tags in an answer are text, not HTML that a terminal would drop."""
    return MarkdownIt("gfm-like", {"html": False})


class UserTurn(Static):
    """What the person wrote, verbatim."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(safe(text)), markup=False)


class Note(Static):
    """A remark of the program; `kind` is "info" or "error"."""

    def __init__(self, text: str, kind: str = "info") -> None:
        super().__init__(Content(safe(text)), markup=False, classes=f"-{kind}")


class AnswerTurn(Vertical):
    """A streaming answer: closed blocks as Markdown, the open one as plain text below it."""

    def __init__(self) -> None:
        super().__init__()
        self._splitter = BlockSplitter()
        self._final = ""
        self._markdown = Markdown(parser_factory=_parser, open_links=False)
        self._open = Static(markup=False, classes="open-block")

    def compose(self) -> ComposeResult:
        yield self._markdown
        yield self._open

    def push(self, text: str) -> None:
        """Take text; nothing is drawn before `draw`."""
        self._final += self._splitter.push(safe(text))

    async def draw(self) -> None:
        """Show what has come since the last call."""
        closed, self._final = self._final, ""
        if closed:
            await self._markdown.append(closed)
        rest = self._splitter.rest
        self._open.update(Content(rest.strip("\n")))
        self._open.display = bool(rest.strip())

    async def finish(self) -> None:
        """The answer has ended, in whatever way: render all of it."""
        self._final += self._splitter.flush()
        await self.draw()
