"""The block that is still being written, drawn in the shape that it will have.

Links show as they are written until the block is whole, and tables are lines; only the last line costs time
when text is added.
"""

import re
from collections.abc import Sequence
from typing import Any

from textual.content import Content, Span

from ebbtide.app.rendering.blocks import BULLETS, QUOTE_BAR, Heading, numbered
from ebbtide.app.rendering.code import TAB_CELLS, code_label, code_rows, colored_lines
from ebbtide.app.rendering.open_inline import Inline, open_inline
from ebbtide.app.rendering.open_lines import QUOTE, ListState, OpenLines, Piece
from ebbtide.app.rendering.rows import BLANK, NARROWEST, Look, Row, beside, wrapped

_SPACE = re.compile(r"[ \t]+")


class OpenBlock:
    """Text that grows at its end, behind `before`: the list it may go on with, or nothing."""

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, before: str) -> None:
        self._before, self._text = before, ""
        self._lines = OpenLines()
        for line in before.split("\n")[:-1] if before else []:
            self._lines.take(line)
        self._first = len(self._lines.pieces)
        # Of a piece that is begun by an unfinished line as well, which is another one at every look.
        self._kept: dict[tuple[int, str], dict[object, Any]] = {}

    def rows(
        self, text: str, before: str, width: int, look: Look, *, number: int, airy: bool, is_first: bool
    ) -> list[Row]:
        """`number`: of the next code block. With an empty row in front where one belongs, if it is not the
        first of all.
        """
        if before != self._before or not text.startswith(self._text):
            self._begin(before)
        *whole, unfinished = text[len(self._text) :].split("\n")
        for line in whole:
            self._lines.take(line)
            self._text += line + "\n"
        lines = self._lines.with_unfinished(unfinished)
        rows: list[Row] = []
        for at, piece in enumerate(lines.pieces[self._first :], self._first):
            last = lines.pieces[at - 1] if at else None
            piece.kept = self._kept.setdefault((at, piece.kind), piece.kept)
            if (last is not None or not is_first) and _is_apart(last, piece, lines.lists, airy):
                rows.append(_between(last, piece, width))
            rows += _drawn(piece, width, look, number)
            number += piece.kind == "code"
        return rows


def _is_apart(last: Piece | None, piece: Piece, lists: Sequence[ListState], airy: bool) -> bool:
    """Whether an empty row stands between two pieces."""
    if last is None:
        return airy
    shared = 0
    # The innermost `opened` levels of a piece are its own.
    for one, other in zip(last.path, piece.path[: len(piece.path) - piece.opened], strict=False):
        if one != other:
            break
        shared += 1
    siblings = len(last.path) > shared < len(piece.path)
    if siblings and last.path[shared].list_number == piece.path[shared].list_number:
        return piece.path[shared].is_quote or lists[piece.path[shared].list_number].loose
    if not shared:
        return airy
    around = piece.path[shared - 1]
    is_list_below_words = last.kind == "words" and len(last.path) == shared and len(piece.path) > shared
    return not is_list_below_words and (around.is_quote or lists[around.list_number].loose)


def _between(last: Piece | None, piece: Piece, width: int) -> Row:
    """The empty row; a quote's bar goes on in it."""
    inside = last is not None and last.path[:1] == piece.path[:1] == (QUOTE,)
    if not inside or width - len(QUOTE_BAR) < NARROWEST:
        return BLANK
    bar = Content.styled(QUOTE_BAR, ".answer--mark")
    return beside([BLANK], bar, bar, is_ornament=True)[0]


def _drawn(piece: Piece, width: int, look: Look, number: int) -> list[Row]:
    """The rows of a piece behind the marks of what it stands in."""
    fronts: list[tuple[str, bool, bool]] = []
    depth = 0
    for at, level in enumerate(piece.path):
        mark = numbered(level.mark) if level.mark else BULLETS[depth % 3]
        mark = QUOTE_BAR if level.is_quote else mark
        depth += not level.is_quote and not level.mark
        if width - len(mark) >= NARROWEST:
            width -= len(mark)
            fronts.append((mark, at >= len(piece.path) - piece.opened, level.is_quote))
    rows = _kept(piece, width, look, number)
    return _behind(piece, rows, fronts) if fronts else rows


def _behind(piece: Piece, rows: list[Row], fronts: list[tuple[str, bool, bool]]) -> list[Row]:
    """The rows with their marks; those that were there before are made once."""
    before: list[Row]
    made: list[Row]
    old_fronts, before, made = piece.kept.get("marked", ([], [], []))
    same = 0
    if old_fronts == fronts:
        while same < min(len(rows), len(before)) and rows[same] is before[same]:
            same += 1
    marked = rows[same:]
    for mark, is_new, is_quote in reversed(fronts) if marked else ():
        first = Content.styled(mark, ".answer--mark")
        rest = first if is_quote else Content(" " * len(mark))
        marked = beside(marked, first if is_new and not same else rest, rest, is_ornament=is_quote)
    marked = [*made[:same], *marked]
    piece.kept["marked"] = fronts, rows, marked
    return marked


def _kept(piece: Piece, width: int, look: Look, number: int) -> list[Row]:
    """The rows without marks."""
    if piece.kind == "code":
        return _code(piece, width, look, number)
    if piece.kind == "heading":
        return Heading(_from(open_inline(piece.lines[0]), 0), len(piece.info)).rows(width, look)
    verbatim = piece.kind == "lines"
    if verbatim:
        return _grown(piece, Inline("\n".join(piece.lines).expandtabs(TAB_CELLS), []), width)
    return _grown(piece, open_inline(_joined(piece.lines)), width)


def _grown(piece: Piece, inline: Inline, width: int) -> list[Row]:
    """Rows of a text: those above the last one stay while it grows."""
    before: Inline
    rows: list[Row]
    before, rows = piece.kept.get(width, (Inline("", []), []))
    if inline != before or not rows:
        last = rows[-1] if rows else None
        start = len(before.text) - len(last.content) if last is not None else 0
        if last is not None and _goes_on(inline, before, start) and before.text.endswith(last.content.plain):
            first, *more = wrapped(_from(inline, start), width)
            rows = [*rows[:-1], first._replace(joint=last.joint), *more]
        else:
            rows = wrapped(_from(inline, 0), width)
        piece.kept[width] = inline, rows
    return rows


def _goes_on(inline: Inline, before: Inline, start: int) -> bool:
    """Whether only what follows `start` looks otherwise than before."""
    return inline.text.startswith(before.text) and _looks(inline, start) == _looks(before, start)


def _looks(inline: Inline, end: int) -> set[tuple[int, int, object]]:
    return {(span.start, min(span.end, end), span.style) for span in inline.spans if span.start < end}


def _from(inline: Inline, start: int) -> Content:
    """What follows `start`."""
    spans = [
        Span(max(span.start - start, 0), span.end - start, span.style)
        for span in inline.spans
        if span.end > start
    ]
    return Content(inline.text[start:], spans)


def _joined(lines: Sequence[str]) -> str:
    """A paragraph: a break counts only where the line says so."""
    text = ""
    for line in lines[:-1]:
        hard = line.endswith("  ") or line.endswith("\\")
        text += line.removesuffix("\\").strip() + ("\n" if hard else " ")
    return _SPACE.sub(" ", text + lines[-1].strip())


def _code(piece: Piece, width: int, look: Look, number: int) -> list[Row]:
    """Final lines in colour, each for itself."""
    key = (width, look, piece.info, number)
    if piece.kept.get("key") != key:
        piece.kept.update(key=key, rows=[], label=code_label(piece.info, number, width))
    made: list[list[Row]] = piece.kept["rows"]
    for line in piece.lines[len(made) : piece.whole]:
        made.append(code_rows(line, colored_lines([line], piece.info, look)[0], width))
    drawn = [*made, *(code_rows(line, _plain(line), width) for line in piece.lines[len(made) :])]
    count = max(len("\n".join(piece.lines).rstrip("\n").split("\n")), 1)
    rows: list[Row] = [piece.kept["label"]]
    for each in drawn[:count] or [code_rows("", Content(), width)]:
        rows += each
    return rows


def _plain(line: str) -> Content:
    return Content(line.expandtabs(TAB_CELLS))
