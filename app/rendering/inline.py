"""What stands inside a paragraph, a heading or a cell: emphasis, code, links, images."""

import re
from typing import TYPE_CHECKING

from textual.content import Content, Span

if TYPE_CHECKING:
    from markdown_it.token import Token

_SPACE = re.compile(r"\s+")
_STYLES = {
    "em": ".answer--em",
    "strong": ".answer--strong",
    "s": ".answer--struck",
    "link": ".answer--link",
}


class _Writer:
    """Text so far, and the spans that are open."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self.spans: list[Span] = []
        self._open: list[tuple[str, int, int, str]] = []
        """Style, where it begins in the text and among the pieces, and where a link leads."""

    def write(self, text: str, style: str = "") -> None:
        if style:
            self.spans.append(Span(self.length, self.length + len(text), style))
        self.pieces.append(text)
        self.length += len(text)

    def open(self, style: str, href: str = "") -> None:
        self._open.append((style, self.length, len(self.pieces), href))

    def close(self) -> None:
        style, start, first, href = self._open.pop()
        self.spans.append(Span(start, self.length, style))
        if href and not _is_told("".join(self.pieces[first:]), href):
            self.write(f" ({href})", ".answer--faint")


def inline(token: "Token | None") -> Content:
    """The content of an inline token. A click opens nothing, so where a link leads stands behind it."""
    writer = _Writer()
    for child in (token.children if token is not None else None) or ():
        kind = child.type
        if kind == "softbreak":
            writer.write(" ")
        elif kind == "hardbreak":
            writer.write("\n")
        elif kind == "code_inline":
            writer.write(_SPACE.sub(" ", child.content), ".answer--inline-code")
        elif kind == "image":
            writer.write(f"[image: {child.content or 'no description'}]", ".answer--em")
            writer.write(f" ({child.attrs.get('src', '')})", ".answer--faint")
        elif kind.endswith("_open"):
            writer.open(_STYLES[kind.removesuffix("_open")], str(child.attrs.get("href", "")))
        elif kind.endswith("_close"):
            writer.close()
        else:
            writer.write(_SPACE.sub(" ", child.content))
    return Content("".join(writer.pieces), writer.spans)


def _is_told(text: str, href: str) -> bool:
    """Whether the words of a link say already where it leads."""
    return _bare(text) == _bare(href)


def _bare(address: str) -> str:
    for scheme in ("mailto:", "https://", "http://"):
        address = address.removeprefix(scheme)
    return address.rstrip("/")
