"""The code blocks of an answer, exactly as they were written."""

from typing import TYPE_CHECKING, NamedTuple

from ebbtide.app.safe_text import safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


class CodeBlockText(NamedTuple):
    language: str
    code: str


def markdown_parser() -> "MarkdownIt":
    """Tags in an answer are text, not HTML that a terminal would drop."""
    from markdown_it import MarkdownIt  # after the first paint

    return MarkdownIt("gfm-like", {"html": False})


def code_blocks(text: str) -> list[CodeBlockText]:
    """All blocks in order, those inside lists and quotes too; numbered from 1 on the screen."""
    return [
        CodeBlockText(token.info.strip().partition(" ")[0], token.content)
        for token in markdown_parser().parse(safe(text))
        if token.type in ("fence", "code_block")
    ]
