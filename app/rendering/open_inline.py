"""Emphasis and code inside a paragraph that is still being written: its marks are not text.

It knows the common forms only: `code`, **strong**, *em*, ~~struck~~ and escapes. What begins with a mark that
is hardly ever meant otherwise (** and `) has its look at once, before its end has come; a single * or _ is
text until then, for a pointer or a product is written so too. Links stay as they are written.
"""

import re
from typing import NamedTuple

from textual.content import Span

_MARK = re.compile(r"\\[!-/:-@\[-`{-~]|`+|\*{1,3}|_{1,3}|~~")
_STYLES = {1: ".answer--em", 2: ".answer--strong", 3: ".answer--strong"}
"""By the length of a run of * or _."""
LONGEST = 8_000
"""Characters of a paragraph; in a longer one marks are text until it is whole, so that no word costs more."""
CODE, STRUCK = ".answer--inline-code", ".answer--struck"


class Inline(NamedTuple):
    """Text without marks, and its looks; no `Content`, which looks at all of the text when it is made."""

    text: str
    spans: list[Span]


class _Open(NamedTuple):
    """A mark whose end has not come: among the pieces, and in the text without marks."""

    mark: str
    piece: int
    at: int


class _Writer:
    """Text without marks, and its looks."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.spans: list[Span] = []
        self.opened: list[_Open] = []
        self.length = 0

    def write(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def open(self, mark: str) -> None:
        self.opened.append(_Open(mark, len(self.pieces), self.length))
        self.write("")

    def close(self, mark: str) -> bool:
        """End what `mark` began; marks in it that have no end are text. False: nothing began so."""
        at = next((at for at in range(len(self.opened) - 1, -1, -1) if self.opened[at].mark == mark), None)
        if at is None:
            return False
        inner = self.opened[at + 1 :]
        del self.opened[at + 1 :]
        for each in reversed(inner):
            self._give_back(each)
        began = self.opened.pop()
        self.spans.append(Span(began.at, self.length, _style(mark)))
        return True

    def end(self) -> Inline:
        """Nothing more has come yet."""
        for each in reversed(self.opened):
            if len(each.mark) == 1:
                self._give_back(each)
            elif each.at < self.length:
                self.spans.append(Span(each.at, self.length, _style(each.mark)))
        return Inline("".join(self.pieces), self.spans)

    def _give_back(self, opened: _Open) -> None:
        """The mark is text after all; what follows moves."""
        by = len(opened.mark)
        self.pieces[opened.piece] = opened.mark
        self.length += by
        self.spans = [
            span if span.end <= opened.at else Span(span.start + by, span.end + by, span.style)
            for span in self.spans
        ]


def _style(mark: str) -> str:
    return STRUCK if mark == "~~" else _STYLES[len(mark)]


def open_inline(text: str) -> Inline:
    """`text`, the beginning of a paragraph, as it will look; a mark at its very end is not shown yet."""
    if len(text) > LONGEST or _MARK.search(text) is None:
        return Inline(text, [])
    writer, end = _Writer(), 0
    while (found := _MARK.search(text, end)) is not None:
        writer.write(text[end : found.start()])
        mark, end = found[0], found.end()
        if mark[0] == "\\":
            writer.write(mark[1])
        elif mark[0] == "`":
            end = _code(writer, text, mark, end)
        else:
            _emphasis(writer, text, mark, found.start())
    writer.write(text[end:])
    return writer.end()


def _code(writer: _Writer, text: str, mark: str, begin: int) -> int:
    """Code up to its end, or to that of the text; where to go on behind it."""
    close = re.compile(rf"(?<!`){mark}(?!`)").search(text, begin)
    code = text[begin : close.start() if close is not None else len(text)]
    if close is None:
        code = code.removesuffix("`" * (len(code) - len(code.rstrip("`"))))
    if code.startswith(" ") and code.strip() and (code.endswith(" ") or close is None):
        code = code[1:].removesuffix(" ")
    if code:
        writer.spans.append(Span(writer.length, writer.length + len(code), CODE))
    writer.write(code)
    return close.end() if close is not None else len(text)


def _emphasis(writer: _Writer, text: str, mark: str, at: int) -> None:
    before, after = text[at - 1 : at] if at else "", text[at + len(mark) :][:1]
    is_last = not after
    opens = bool(after) and not after.isspace()
    closes = bool(before) and not before.isspace()
    if mark[0] == "_":
        opens, closes = opens and not before.isalnum(), closes and not after.isalnum()
    if closes and writer.close(mark):
        return
    if opens:
        writer.open(mark)
    elif not is_last or closes:
        writer.write(mark)
