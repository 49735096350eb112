"""From the tokens of a Markdown parser to blocks."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from ebbtide.app.rendering.blocks import BULLETS, Code, Heading, Items, Quote, Rule, Words, numbered
from ebbtide.app.rendering.inline import inline
from ebbtide.app.rendering.rows import Block
from ebbtide.app.rendering.tables import Table

if TYPE_CHECKING:
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode


class Builder:
    """Numbers code blocks from `next_number` on."""

    def __init__(self, next_number: int = 1) -> None:
        self.next_number = next_number

    def blocks(self, tokens: "Sequence[Token]") -> "Iterator[tuple[Block, int]]":
        """The blocks that stand in no other, each with the number of the next code block behind it."""
        from markdown_it.tree import SyntaxTreeNode  # after the first paint

        for node in SyntaxTreeNode(tokens).children:
            yield self._block(node, 0), self.next_number

    def _block(self, node: "SyntaxTreeNode", depth: int) -> Block:
        """`depth`: of bullets in bullets."""
        kind = node.type
        if kind in ("fence", "code_block"):
            self.next_number += 1
            return Code(node.content, node.info, self.next_number - 1)
        if kind == "heading":
            return Heading(_inline(node), int(node.tag[1:]))
        if kind == "hr":
            return Rule()
        if kind == "table":
            return _table(node)
        if kind == "blockquote":
            return Quote([self._block(child, depth) for child in node.children])
        if kind in ("bullet_list", "ordered_list"):
            return self._items(node, depth)
        return Words(_inline(node))

    def _items(self, node: "SyntaxTreeNode", depth: int) -> Items:
        if node.type == "ordered_list":
            start = int(node.attrs.get("start", 1))
            numbers = range(start, start + len(node.children))
            marks = [numbered(f"{number}{node.markup} ") for number in numbers]
            inner = depth
        else:
            inner = depth + 1
            marks = [BULLETS[depth % len(BULLETS)]] * len(node.children)
        items = [[self._block(child, inner) for child in item.children] for item in node.children]
        loose = any(
            child.type == "paragraph" and not child.hidden
            for item in node.children
            for child in item.children
        )
        return Items(marks, items, loose)


def _inline(node: "SyntaxTreeNode") -> Content:
    for child in node.children:
        if child.type == "inline":
            return inline(child.token)
    return Content()


def _table(node: "SyntaxTreeNode") -> Table:
    lines = [line for group in node.children for line in group.children]
    head, *body = [[_inline(cell) for cell in line.children] for line in lines]
    styles = [str(cell.attrs.get("style", "")) for cell in lines[0].children]
    align = [style.removeprefix("text-align:") or "left" for style in styles]
    return Table(head, body, align)
