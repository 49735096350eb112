"""The shape of Markdown that is still being written, line by line: what is a paragraph, an item, code.

It knows the common forms only, and never looks back: who needs to be right waits for the end of a block
(`build`). Lines of one kind that belong together are a piece:

    1. Install it:         Words in an item, which it opens
       ```sh               Code in the same item
       pip install x
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

_MARKER = re.compile(r"([-*+]|\d{1,9}[.)])( {1,4}(?=\S)| +|$)")
_FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_QUOTED = re.compile(r" {0,3}> ?(.*)")
_UNDECIDED = re.compile(r"[ >]*(?:[`~]{1,2}|\d{1,9}|(?:[-+*]+|\d{1,9}[.)]|#{1,6}|=+|\|) *)$")
"""A line that may become anything: text, a fence, an item, the underline of a heading."""
_CODE_INDENT = 4

Kind = Literal["words", "lines", "heading", "code"]


class Level(NamedTuple):
    """What a piece stands in: an item of a list, whose text begins in a column of the source; or a quote."""

    list_number: int
    column: int = 0
    sign: str = ""
    number: int = 0

    @property
    def is_quote(self) -> bool:
        return not self.sign

    @property
    def mark(self) -> str:
        """Of a numbered item; bullets depend on what they stand in."""
        return "" if self.sign in "-*+" else f"{self.number}{self.sign} "


QUOTE = Level(-1)


class ListState(NamedTuple):
    """`loose`: with empty rows between its items."""

    loose: bool = False


@dataclass
class Piece:
    """`opened`: so many of its innermost levels begin with it. `info`: a language, or a heading's signs.
    `whole`: so many lines are final. `kept` is for who draws it.
    """

    kind: Kind
    path: tuple[Level, ...]
    opened: int
    lines: list[str]
    info: str = ""
    whole: int = 0
    kept: dict[object, Any] = field(default_factory=dict)


class OpenLines:
    """Takes lines in order."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.lists: list[ListState] = []
        self._path: tuple[Level, ...] = ()
        self._fence: tuple[str, int] | None = None
        """Its signs and its column."""
        self._after_blank = False

    def with_unfinished(self, line: str) -> "OpenLines":
        """The same with a line that may still grow; nothing of it where it could become anything."""
        probe = OpenLines()
        probe.pieces, probe.lists = self.pieces[:], self.lists[:]
        probe._path, probe._fence, probe._after_blank = self._path, self._fence, self._after_blank
        if probe.pieces:
            last = probe.pieces[-1]
            probe.pieces[-1] = replace(last, lines=last.lines[:])
        if self._fence is not None:
            undecided = line.strip(" >") and not line.strip(f" >{self._fence[0][0]}")
        else:
            undecided = _UNDECIDED.match(line) is not None
        if line.strip(" >" if self._path == (QUOTE,) else None) and not undecided:
            probe._take(line)
        return probe

    def take(self, line: str) -> None:
        """A line that is final."""
        self._take(line)
        if self.pieces:
            self.pieces[-1].whole = len(self.pieces[-1].lines)

    def _take(self, line: str) -> None:
        line = line.expandtabs(_CODE_INDENT) if line[:1] in " \t" and self._fence is None else line
        if self._fence is not None and self._in_fence(line, *self._fence):
            return
        if not line.strip():
            self._after_blank = True
            if self._path == (QUOTE,):
                self._path = ()
            return
        quoted = _QUOTED.match(line)
        if quoted is not None and self._path in ((), (QUOTE,)):
            self._path = (QUOTE,)
            self._quoted(quoted[1])
        else:
            self._unquoted(line)
        self._after_blank = quoted is not None and not quoted[1].strip()

    # --- code

    def _in_fence(self, line: str, signs: str, column: int) -> bool:
        """Take a line as code, or as the end of it. False: what the code stands in has ended."""
        if self._path == (QUOTE,):
            quoted = _QUOTED.match(line)
            line = quoted[1] if quoted is not None else line
            outlived = quoted is None
        else:
            outlived = bool(self._path) and bool(line.strip()) and _indent(line) < self._path[-1].column
        if outlived:
            self._fence = None
            return False
        bare = line.strip()
        if len(bare) >= len(signs) and set(bare) == {signs[0]}:
            self._fence = None
        else:
            self.pieces[-1].lines.append(_without_indent(line, column))
        return True

    # --- what a line is

    def _quoted(self, rest: str) -> None:
        if not rest.strip():
            return
        kind: Kind = "lines" if _MARKER.match(rest.lstrip()) or rest.lstrip()[:1] == ">" else "words"
        self._place(rest.strip(), 0, 0, kind)

    def _unquoted(self, line: str) -> None:
        column, rest = _indent(line), line.lstrip()
        if self._path == (QUOTE,):
            if not self._after_blank and not self._begins_something(rest):
                self._place(rest, 0, 0, "words")  # it goes on without its mark
                return
            self._path = ()
        gone = self._leave(column, rest)
        opened = 0
        while (marker := self._marker(rest, opened, gone)) is not None:
            column = self._open(marker, column, gone)
            rest, gone = rest[marker.end() :], None
            opened += 1
        far = not self._path and column >= _CODE_INDENT and (self._after_blank or not self.pieces)
        if far:
            rest = " " * column + rest
        self._place(rest, column, opened, "lines" if far or rest[:1] == "|" else "words")

    def _leave(self, column: int, rest: str) -> Level | None:
        """Leave the items that end before this line; the outermost of them."""
        gone = None
        if column < (self._path[-1].column if self._path else 0) and (
            self._after_blank or self._begins_something(rest)
        ):
            while self._path and column < self._path[-1].column:
                gone, self._path = self._path[-1], self._path[:-1]
        if gone is None and self._path and self._after_blank:
            self._loosen(self._path[-1])
        return gone

    @staticmethod
    def _begins_something(rest: str) -> bool:
        return any(form.match(rest) for form in (_MARKER, _FENCE, _HEADING)) or rest[:1] == ">"

    def _marker(self, rest: str, opened: int, gone: Level | None) -> "re.Match[str] | None":
        """That of an item. In the middle of a paragraph only a first one is."""
        marker = _MARKER.match(rest)
        if marker is None or _is_rule(rest):
            return None
        last = self.pieces[-1] if self.pieces else None
        amid = last is not None and last.kind == "words" and last.path == self._path
        if amid and not opened and gone is None and not self._after_blank:
            return marker if marker[1] in ("-", "*", "+", "1.", "1)") and marker.end() < len(rest) else None
        return marker

    def _open(self, marker: "re.Match[str]", column: int, gone: Level | None) -> int:
        """Begin an item; the column in which its text begins."""
        sign, number = marker[1][-1], int(marker[1][:-1] or 0)
        if gone is not None and gone.sign == sign:
            here, number = gone.list_number, gone.number + 1
            if self._after_blank:
                self._loosen(gone)
        else:
            here = len(self.lists)
            self.lists.append(ListState())
        space = len(marker[2]) if 0 < len(marker[2]) <= _CODE_INDENT else 1
        level = Level(here, column + len(marker[1]) + space, sign, number)
        self._path += (level,)
        return level.column

    def _loosen(self, level: Level) -> None:
        self.lists[level.list_number] = self.lists[level.list_number]._replace(loose=True)

    def _place(self, rest: str, column: int, opened: int, kind: Kind) -> None:
        """Add the line to the piece it belongs to, or begin another one."""
        fence, heading = _FENCE.match(rest), _HEADING.match(rest)
        last = self.pieces[-1] if self.pieces else None
        if fence is not None and kind == "words":
            self._fence = fence[1], column
            self.pieces.append(Piece("code", self._path, opened, [], fence[2].strip()))
        elif heading is not None and kind == "words":
            words = heading[2].rstrip().rstrip("#").rstrip()
            self.pieces.append(Piece("heading", self._path, opened, [words], heading[1]))
        elif last is None or opened or self._after_blank or (last.kind, last.path) != (kind, self._path):
            self.pieces.append(Piece(kind, self._path, opened, [rest]))
        else:
            last.lines.append(rest)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _without_indent(line: str, column: int) -> str:
    """At most `column` spaces less."""
    return line[min(column, _indent(line)) :]


def _is_rule(rest: str) -> bool:
    bare = rest.replace(" ", "")
    return len(bare) >= 3 and bare[0] in "-*_" and set(bare) == {bare[0]}
